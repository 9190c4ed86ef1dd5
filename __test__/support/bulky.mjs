// Sessions that keep the command busy for long enough to be interrupted: each kind of work is slow at another one.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { folderOf, noise } from './deltas.mjs'
import { HOUR, idAt } from './forged.mjs'
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

/** 240 MB as they are: long to read and to write. */
export const heavy = () => filled(scratchDirectory(), 'heavy', 60, { description: noise(4_000_000) })

/** Some kilobytes that are 320 MB: long to look into. */
export const squeezed = () =>
  filled(scratchDirectory(), 'squeezed', 20, { description: 'x'.repeat(16_000_000) }, { encoding: 'zstd' })

export const MANY = 3000

/** Thousands of small ones, as the original store wrote them: long to go through. */
export async function many() {
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
  for (let number = 1; number < MANY; number += 1) {
    const id = idAt(checkpoint.timestamp - number * HOUR, number)
    writeFileSync(join(folder, `${id}.json`), JSON.stringify({ ...checkpoint, id }))
  }
  return location
}
