// Checks that acknowledged data are present and complete.

import { told } from './calls.mjs'
import { contentError } from './state.mjs'

/** All pages of the list of a session. */
export async function listed(store, session) {
  const shown = []
  const damaged = []
  let cursor
  do {
    const page = await store.listCheckpointInfo(session, { limit: 25, ...(cursor && { cursor }) })
    shown.push(...page.checkpoints)
    damaged.push(...page.damaged)
    cursor = page.cursor
  } while (cursor)
  return { shown, damaged }
}

const repeated = (list) => list.filter((item, index) => list.indexOf(item) !== index)

/** The ids that `listAllCheckpoints` shows, by session. */
export async function listedByAll(store) {
  const { checkpoints } = await store.listAllCheckpoints({ limit: 1_000_000 })
  const ids = new Map()
  for (const { sessionId, id } of checkpoints) ids.set(sessionId, [...(ids.get(sessionId) ?? []), id])
  return ids
}

/** Whether the lists of a session show every id once, and nothing is damaged. */
export async function listErrors(store, session, byAll) {
  const { shown, damaged } = await listed(store, session)
  const found = damaged.map(({ id, error }) => `${session}/${id} is damaged: ${error}`)
  const whole = await store.listCheckpoints(session)
  const all = byAll ?? (await listedByAll(store))
  const report = await store.verifySession(session)
  const lists = {
    listCheckpointInfo: shown.map(({ id }) => id),
    listCheckpoints: whole.checkpoints.map(({ id }) => id),
    listAllCheckpoints: all.get(session) ?? [],
    verifySession: report.checkpoints.map(({ id }) => id),
  }
  for (const [method, ids] of Object.entries(lists)) {
    for (const id of repeated(ids)) found.push(`${method} shows ${session}/${id} twice`)
  }
  for (const entry of [...report.checkpoints, ...report.agentCheckpoints, ...report.files]) {
    if (!entry.whole) found.push(`${entry.path} is damaged: ${entry.error}`)
  }
  return found
}

/**
 * A finding for every checkpoint of `made`, a Map from id to token, that is missing, unreadable or holds another state, and
 * for every id that a list shows twice.
 */
export async function unreadable(store, session, made) {
  const found = await listErrors(store, session)
  for (const [id, token] of made) {
    try {
      const checkpoint = await store.getCheckpoint(session, id)
      const wrong = checkpoint ? contentError(checkpoint, token) : 'it is missing'
      if (wrong) found.push(`${session}/${id} was acknowledged: ${wrong}`)
    } catch (error) {
      found.push(`${session}/${id} was acknowledged and cannot be read: ${told(error)}`)
    }
  }
  return found
}

/** Counts findings by kind: those that differ only in ids, names and numbers are of one kind. */
export function kinds(found) {
  const counts = new Map()
  for (const text of found) {
    const kind = text
      .split('\n')[0]
      .replaceAll(/\S+\//g, '')
      .replaceAll(/cp-\w+-\w+/g, '<id>')
      .replaceAll(/\b(?:p\d+|a|b)-\d+\b|\blabel \S+/g, '<token>')
      .replaceAll(/^(?:p\d+|a|b): /g, '')
      .replaceAll(/\b(kept|limited|doomed|expiring|exchanged|fork|import)-[\w<>-]+/g, '$1')
      .replaceAll(/\d+/g, 'n')
    const known = counts.get(kind) ?? { count: 0, example: text }
    known.count += 1
    counts.set(kind, known)
  }
  return [...counts.values()].toSorted((one, two) => two.count - one.count)
}
