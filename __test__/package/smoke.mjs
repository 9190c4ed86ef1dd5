// The smoke test for runtimes without a Node.js test runner: Bun and Deno.

import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { AutoCheckpoint, CheckpointPolicy, CheckpointStore } from '../../index.js'
import { makeAgent, makeSession, withoutTree } from '../support/sessions.mjs'

assert.equal(createRequire(import.meta.url)('../../index.js').CheckpointStore, CheckpointStore)

const base = mkdtempSync(join(tmpdir(), 'waymark-smoke-'))
for (const location of [base, `sqlite:${join(base, 'below', 'store.db')}`, 'memory:']) {
  const store = new CheckpointStore(location, 3)
  await assert.rejects(store.listSessions(), { code: 'WAYMARK_NOT_INITIALIZED' })
  await store.initialize()
  const session = makeSession('s', { metadata: { text: '検査点 🟦', map: new Map() } })
  const agents = new Map([['a', makeAgent('a')]])
  assert.equal((await store.saveSession(session)).success, true)
  for (let index = 0; index < 5; index += 1) {
    const options = { trigger: 'auto', includeContext: true, compress: index % 2 === 0 }
    const result = await store.createCheckpoint(session, agents, { index }, options)
    assert.equal(result.success, true, result.error)
  }
  const { checkpoints, total } = await store.listCheckpoints('s')
  assert.deepEqual([total, checkpoints.map((checkpoint) => checkpoint.contextStore.index)], [3, [4, 3, 2]])
  const restored = await store.restoreCheckpoint({ checkpointId: checkpoints[2].id, validateChecksum: true })
  assert.equal(restored.success, true, restored.error)
  assert.equal((await store.loadSession('s')).lastCheckpointId, checkpoints[2].id)
  assert.deepEqual((await store.loadSession('s')).metadata, withoutTree(session).metadata)
  assert.equal((await store.saveTaskResult('s', 't', 1n)).code, 'WAYMARK_NOT_SERIALIZABLE')
  assert.equal((await store.saveTaskResult('../x', 't', 1)).code, 'WAYMARK_INVALID_ID')

  const told = []
  const auto = store.autoCheckpoint({
    sessionId: 's',
    everyMs: 60_000,
    policy: CheckpointPolicy.afterToolCall(),
    capture: () => (auto.taken < 2 ? { session } : undefined),
    onError: (error) => told.push(error.code),
  })
  assert.ok(auto instanceof AutoCheckpoint)
  assert.equal((await auto.notify('tool_call', 1)).success, true)
  assert.equal(await auto.notify('iteration', 2), undefined)
  assert.equal((await auto.now()).success, true)
  assert.equal(await auto.stop(), undefined)
  assert.deepEqual([auto.taken, told], [2, ['WAYMARK_INVALID_ARGUMENT']])

  await store[Symbol.asyncDispose]()
  await assert.rejects(store.listSessions(), (error) => error instanceof Error && error.code === 'WAYMARK_CLOSED')
}
assert.ok(existsSync(join(base, 's', 'session.json')))
rmSync(base, { recursive: true })

// It is never stopped, and must not keep the process alive.
new CheckpointStore('memory:').autoCheckpoint({ sessionId: 's', everyMs: 1e9, capture: () => undefined })
console.log('smoke test passed')
