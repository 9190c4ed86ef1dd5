// Calls on a store during server faults: how they end, and what they stored.

import assert from 'node:assert/strict'
import { join } from 'node:path'

import { growingSession } from './deltas.mjs'
import { makeSession, makeTree } from './sessions.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from './stores.mjs'

/** Keeps everything, so that a duplicate is visible. */
export const KEEP_ALL = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity, keepPrevious: 1000 }

/** How often an item may be stored, by the outcome of its call. */
const COUNTS = { done: [1], WAYMARK_IO: [0], WAYMARK_BUSY: [0], WAYMARK_OUTCOME_UNKNOWN: [0, 1] }

/** Makes a call; resolves to its outcome, `done` or an error code, and its duration. */
export async function outcomeOf(call) {
  const begun = performance.now()
  const {
    success = true,
    code,
    error,
  } = await Promise.resolve()
    .then(call)
    .then((result) => result ?? {})
    .catch((failure) => ({ success: false, code: failure.code, error: failure.message }))
  return { ended: success ? 'done' : code, error, ms: performance.now() - begun }
}

/** Asserts that an acknowledged item is stored once, a failed one not at all, and none twice. */
export function assertCount(count, { ended, error }, what) {
  assert.ok(ended in COUNTS, `${what} ended with ${ended}: ${error}`)
  assert.ok(COUNTS[ended].includes(count), `${what} ended with ${ended}, and is there ${count} times: ${error}`)
}

/**
 * Every kind of write. `begin` prepares it; `write` does it under a unique name; `names` lists the stored
 * names, or `count` counts one. All get what `begin` resolved to.
 */
export const WRITES = {
  'a checkpoint': {
    write: (store, name) => store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, description: name }),
    names: descriptions,
  },
  'a delta': {
    begin: (store) => checkpointOf(store, growingSession(0), { ...OPTIONS, encoding: 'delta' }),
    write: (store, name) =>
      store.createCheckpoint(growingSession(1), {}, {}, { ...OPTIONS, encoding: 'delta', description: name }),
    names: descriptions,
  },
  'a checkpoint whose label is its own': {
    write: (store, name) => {
      const options = { ...OPTIONS, description: name, label: name, uniqueLabel: true }
      return store.createCheckpoint(makeSession('s'), {}, {}, options)
    },
    names: descriptions,
  },
  'a session': {
    write: (store, name) => store.saveSession(makeSession('s', { name })),
    names: sessionNames,
  },
  'a session over the one that was seen': {
    begin: async (store, name) => (await store.saveSession(makeSession('s', { name: `before ${name}` }))).revision,
    write: (store, name, ifRevision) => store.saveSession(makeSession('s', { name }), { ifRevision }),
    names: sessionNames,
  },
  'a checkpoint after the one that was seen': {
    begin: madeOne,
    write: (store, name, ifParent) => {
      const options = { ...OPTIONS, description: name, ifParent }
      return store.createCheckpoint(makeSession('s', { lastCheckpointId: ifParent }), {}, {}, options)
    },
    names: descriptions,
  },
  'a task tree': {
    write: (store, name) => store.saveTaskTree('s', { ...makeTree(1), [name]: {} }),
    names: async (store) => (await versionsOf((options) => store.loadTaskTree('s', options))).flatMap(Object.keys),
  },
  'a result': {
    write: (store, name) => store.saveTaskResult('s', name, { name }),
    count: async (store, name) => Number((await store.loadTaskResult('s', name))?.name === name),
  },
  'a checkpoint of an agent': {
    write: (store, name) => store.agent('s', 'a').save({ iteration: 1, label: name }),
    names: async (store) => (await store.agent('s', 'a').info()).checkpoints.map(({ label }) => label),
  },
  'a restored session': {
    begin: async (store, name) => (await checkpointOf(store, makeSession('s', { name }))).checkpointId,
    write: (store, _, checkpointId) => store.restoreCheckpoint({ sessionId: 's', checkpointId }),
    names: sessionNames,
  },
  'a label': {
    begin: madeOne,
    write: (store, name, checkpointId) => store.labelCheckpoint('s', checkpointId, name),
    count: async (store, name) => Number((await store.getCheckpointByLabel('s', name)) !== null),
  },
  'a pin': {
    begin: madeOne,
    write: (store, _, checkpointId) => store.pinCheckpoint('s', checkpointId),
    count: async (store, _, checkpointId) => {
      const { checkpoints } = await store.listCheckpointInfo('s')
      return checkpoints.filter(({ id, pinned }) => id === checkpointId && pinned).length
    },
  },
  'the end of a checkpoint': {
    begin: madeOne,
    write: (store, _, checkpointId) => store.deleteCheckpoint('s', checkpointId),
    count: async (store, _, checkpointId) => Number((await store.getCheckpoint('s', checkpointId)) === null),
  },
  'the end of a session': {
    begin: (store, name) => store.saveSession(makeSession(name)),
    write: (store, name) => store.deleteSession(name),
    count: async (store, name) => Number((await store.loadSession(name)) === null),
  },
  'a lease': {
    begin: (store, name) => store.saveSession(makeSession(name)),
    write: (store, name) => store.acquireSession(name, { owner: name, ttlMs: 600_000 }),
    count: async (store, name) =>
      (await store.sessionsInfo()).filter(({ id, lease }) => id === name && lease?.owner === name).length,
  },
  'a fork': {
    begin: madeOne,
    write: (store, name, checkpointId) =>
      store.forkSession({ sessionId: 's', checkpointId, newSessionId: `fork ${name}` }),
    count: (store, name) => countSessions(store, `fork ${name}`, 1),
  },
  'an import': {
    begin: packed,
    write: (store, name, file) => store.importSession(file, { as: `import ${name}` }),
    count: (store, name) => countSessions(store, `import ${name}`, 3),
  },
}

/** How often a write with a name was stored. */
export async function countOf({ names, count }, store, name, made = undefined) {
  if (count) return count(store, name, made)
  return (await names(store)).filter((other) => other === name).length
}

/** Every kind of read, for a session `s` with checkpoints. */
export const READS = {
  'a session': (store) => store.loadSession('s'),
  'a list of checkpoints': (store) => store.listCheckpoints('s', 3),
  'a line for each session': (store) => store.sessionsInfo(),
}

async function madeOne(store) {
  return (await checkpointOf(store, makeSession('s'))).checkpointId
}

/** The export file of a session with three checkpoints. */
async function packed() {
  const store = await openStore()
  await store.saveSession(makeSession('packed'))
  for (let number = 0; number < 3; number += 1) await checkpointOf(store, makeSession('packed'))
  return (await store.exportSession('packed', join(scratchDirectory(), 'packed.zst'))).file
}

async function descriptions(store) {
  const { checkpoints, damaged } = await store.listCheckpointInfo('s')
  assert.deepEqual(damaged, [])
  return checkpoints.map(({ description }) => description)
}

async function sessionNames(store) {
  return (await versionsOf((options) => store.loadSession('s', options))).map(({ name }) => name)
}

/** All versions of a document. */
async function versionsOf(load) {
  const found = []
  for (let version = 0; ; version -= 1) {
    const document = await load({ version })
    if (document === null) return found
    found.push(document)
  }
}

/** Asserts that a session is stored whole or not at all. */
async function countSessions(store, id, checkpoints) {
  const [session, { total }] = [await store.loadSession(id), await store.listCheckpointInfo(id)]
  assert.deepEqual([session?.id, total], session ? [id, checkpoints] : [undefined, 0])
  if (session) assert.equal((await store.verifySession(id)).whole, true)
  return Number(session !== null)
}
