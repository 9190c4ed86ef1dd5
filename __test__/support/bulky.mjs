// Sessions that keep the command busy for long enough to be interrupted: each kind of work is slow at another one.

import { join } from 'node:path'

import { noise } from './deltas.mjs'
import { makeSession } from './sessions.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from './stores.mjs'

const RELAXED = { durability: 'relaxed', maxCheckpointsPerSession: Infinity }

async function filled(location, id, count, { atOnce = 1, ...overrides }, options) {
  const store = await openStore(location, RELAXED)
  const session = makeSession(id, overrides)
  await store.saveSession(makeSession(id))
  for (let made = 0; made < count; made += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, () => checkpointOf(store, session, { ...OPTIONS, ...options })))
  }
  await store.close()
  return location
}

/** 240 MB as they are: long to read and to write. */
export const heavy = () => filled(scratchDirectory(), 'heavy', 60, { description: noise(4_000_000) })

/** Some kilobytes that are 400 MB: long to look into. */
export const squeezed = () =>
  filled(scratchDirectory(), 'squeezed', 25, { description: 'x'.repeat(16_000_000) }, { encoding: 'zstd' })

/** Thousands of small ones: long to go through. */
export const many = () =>
  filled(`sqlite:${join(scratchDirectory(), 'many.db')}`, 'many', 6000, { atOnce: 500 }, { trigger: 'auto' })
