// Sessions that change a little from one checkpoint to the next, and the files that deltas of them are kept in.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

import { makeSession } from './sessions.mjs'
import { OPTIONS, checkpointIdsOf, checkpointOf } from './stores.mjs'

export const DELTA = { ...OPTIONS, encoding: 'delta' }

/** Letters that do not become much smaller, always the same ones for the same seed. */
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

/** A session of some twenty kilobytes; from one number to the next, little changes. */
export const grown = (number, id = 's') =>
  makeSession(id, { name: `${number}`, description: SETTLED, metadata: { steps: noise(100, number) } })

/** So many checkpoints, one after the other; the answers of the calls. */
export async function madeInTurn(store, count, { first = 0, sessionOf = grown, options = DELTA } = {}) {
  const made = []
  for (let number = first; number < first + count; number += 1) {
    made.push(await checkpointOf(store, sessionOf(number), options))
  }
  return made
}

export const folderOf = (base, session = 's') => join(base, session, 'checkpoints')

/** The names of files with an ending, in their order. */
const namesIn = (folder, ending) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .toSorted()

export const keysIn = (folder) => namesIn(folder, '.key.zst')
export const deltasIn = (folder) => namesIn(folder, '.delta.zst')

/** Every checkpoint of a session is whole, for somebody who has nothing in memory; the names that they were given. */
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
