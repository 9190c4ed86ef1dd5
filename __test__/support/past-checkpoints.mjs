// Checkpoints with a time in the past or future.

import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { makeSession } from './sessions.mjs'
import { OPTIONS, checkpointOf, openStore } from './stores.mjs'

export const MINUTE = 60_000
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

const DIGITS = 6

/** The id of the `number`-th checkpoint of a moment. */
export function idAt(time, number = 0) {
  return `cp-${time.toString(36)}-${number.toString(36).padStart(DIGITS, '0')}`
}

/**
 * Creates checkpoints with given times in any store: each is `{ time, label?, number?, padding? }`. They are
 * created in a directory, renamed there, and copied. Resolves to their ids.
 */
export async function createCheckpointsAt(store, checkpoints, sessionId = 's') {
  const workshop = await openStore(undefined, { maxCheckpointsPerSession: Infinity, durability: 'relaxed' })
  const ids = []
  for (const { time, number = ids.length, label, padding = 0 } of checkpoints) {
    const session = makeSession(sessionId, { description: 'x'.repeat(padding) })
    const { checkpointId, path } = await checkpointOf(workshop, session, { ...OPTIONS, label })
    const id = idAt(time, number)
    writeFileSync(join(dirname(path), `${id}.json`), readFileSync(path, 'utf8').replaceAll(checkpointId, id))
    await workshop.deleteCheckpoint(sessionId, checkpointId)
    ids.push(id)
  }
  await workshop.copyTo(store, { sessionId })
  await workshop.close()
  return ids
}
