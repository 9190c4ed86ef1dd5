// Everything that is measured, by name. `open(directory, { keep })` gives an object with `save(sessionId, state, options?)`
// and `latest(sessionId)`; some can do more. What is on a server takes its URL in the place of the directory.

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
