// Stores that keep the command busy long enough to be interrupted: each is slow for another command.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { folderOf, noise } from './deltas.mjs'
import { HOUR, idAt } from './past-checkpoints.mjs'
import { makeSession } from './sessions.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from './stores.mjs'

const RELAXED = { durability: 'relaxed', maxCheckpointsPerSession: Infinity }

async function filled(location, id, count, overrides, options) {
  const store = await openStore(location, RELAXED)
  const session = makeSession(id, overrides)
  await store.saveSession(makeSession(id))
  for (let made = 0; made < count; made += 1) await checkpointOf(store, session, { ...OPTIONS, ...options })
  await store.close()
  return location
}

/** 240 MB uncompressed: slow to read and write. */
export const largeStore = () => filled(scratchDirectory(), 'heavy', 60, { description: noise(4_000_000) })

/** 320 MB compressed to some kilobytes: slow to inflate. */
export const compressedStore = () =>
  filled(scratchDirectory(), 'squeezed', 20, { description: 'x'.repeat(16_000_000) }, { encoding: 'zstd' })

export const CHECKPOINT_COUNT = 3000

/** Thousands of small checkpoints in the format of the original store: slow to iterate. */
export async function manyCheckpoints() {
  const location = await filled(scratchDirectory(), 'many', 1, {})
  const folder = folderOf(location, 'many')
  const name = readdirSync(folder).find((entry) => entry.endsWith('.json'))
  const path = join(folder, name)
  const {
    integrity: _,
    label: __,
    parent: ___,
    taskCount: ____,
    agentCount: _____,
    ...checkpoint
  } = JSON.parse(readFileSync(path, 'utf8'))
  for (let number = 1; number < CHECKPOINT_COUNT; number += 1) {
    const id = idAt(checkpoint.timestamp - number * HOUR, number)
    writeFileSync(join(folder, `${id}.json`), JSON.stringify({ ...checkpoint, id }))
  }
  return location
}
