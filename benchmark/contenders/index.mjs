// All contenders, by name. `open(directory, { keep })` returns an object with `save(sessionId, state, options?)`
// and `latest(sessionId)`; some can do more. Those on a server take its URL instead of the directory.

import { openFloor } from './floor.mjs'
import { PEERS } from './peers.mjs'
import { PlainStore } from './plain-store.mjs'
import { openLangGraphOnPostgres } from './postgres.mjs'
import { openWaymark } from './waymark.mjs'

export const CONTENDERS = {
  waymark: openWaymark,
  'waymark in SQLite': (directory, options) => openWaymark(`sqlite:${directory}/store.db`, options),
  floor: openFloor,
  'plain JavaScript': async (directory, { keep }) => new PlainStore(directory, keep),
  'langgraph-checkpoint-postgres': openLangGraphOnPostgres,
  ...Object.fromEntries(PEERS.map(({ name, open }) => [name, open])),
}

export const PEER_NAMES = PEERS.map(({ name }) => name)
