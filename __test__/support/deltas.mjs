// Sessions that change little between checkpoints, and the files of their deltas.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

import { makeSession } from './sessions.mjs'
import { OPTIONS, checkpointIdsOf, checkpointOf } from './stores.mjs'

export const DELTA = { ...OPTIONS, encoding: 'delta' }

/** Text that compresses badly, the same for the same seed. */
export function noise(length, seed = 1) {
  let state = seed * 2_654_435_761 + 12_345
  const next = () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 3_266_489_917) >>> 0
    return state.toString(36).padStart(7, '0')
  }
  let text = ''
  while (text.length < length) text += next()
  return text.slice(0, length)
}

const SETTLED = noise(20_000)

/** A session of 20 kB that changes little from one number to the next. */
export const growingSession = (number, id = 's') =>
  makeSession(id, { name: `${number}`, description: SETTLED, metadata: { steps: noise(100, number) } })

/** Creates checkpoints in sequence; resolves to the results. */
export async function createInSequence(store, count, { first = 0, sessionOf = growingSession, options = DELTA } = {}) {
  const made = []
  for (let number = first; number < first + count; number += 1) {
    made.push(await checkpointOf(store, sessionOf(number), options))
  }
  return made
}

export const folderOf = (base, session = 's') => join(base, session, 'checkpoints')

/** The names of files with an ending, sorted. */
const namesIn = (folder, ending) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .toSorted()

export const basesIn = (folder) => namesIn(folder, '.key.zst')
export const deltasIn = (folder) => namesIn(folder, '.delta.zst')

/** Asserts that every checkpoint of a session is whole; resolves to the names of its sessions. */
export async function assertWhole(store, session = 's') {
  const { checkpoints, damaged } = await store.listCheckpoints(session, Infinity)
  assert.deepEqual(damaged, [])
  const verdict = await store.verifySession(session)
  assert.equal(verdict.whole, true)
  assert.equal(verdict.checkpoints.length, checkpoints.length)
  return checkpoints.map((checkpoint) => checkpoint.session.name)
}

/** A session has exactly the checkpoints that were created, once each, and all are whole. */
export async function assertAllWhole(store, created) {
  assert.deepEqual(
    (await checkpointIdsOf(store)).toSorted(),
    created.map(({ checkpointId }) => checkpointId).toSorted(),
  )
  await assertWhole(store)
}
