import assert from 'node:assert/strict'
import { it } from 'node:test'

import { integrityOf, originalChecksum } from '../support/reference.mjs'
import { makeAgent, makeSession, makeTree, throughJson } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend } from '../support/stores.mjs'

const CHECKPOINT_MEMBERS =
  'id sessionId timestamp trigger description session taskTree agentStates contextStore checksum version sizeBytes metadata taskCount agentCount label parent integrity'
const SESSION_MEMBERS =
  'id name description status rootTaskId lastCheckpointId checkpointIds autoCheckpointIntervalMs config createdAt startedAt expiresAt metrics errors metadata'

onEveryBackend('checkpoints', (open) => {
  for (const compress of [false, true]) {
    const kind = compress ? 'compressed' : 'plain'

    it(`a ${kind} checkpoint holds the whole state, in the order of the contract`, async () => {
      const store = await open()
      const ids = { lastCheckpointId: 'cp-older-000001', checkpointIds: ['cp-older-000001'] }
      const session = makeSession('s', { ...ids, metadata: { team: 'blue' } })
      const agents = { 'agent-1': makeAgent('agent-1') }
      const context = { 'shared/plan': ['a', 'b'], 7: 'seven' }
      const before = Date.now()
      const result = await store.createCheckpoint(session, agents, context, {
        trigger: 'milestone',
        description: 'half way',
        includeContext: true,
        compress,
        label: 'green',
        metadata: { build: 12 },
      })
      const after = Date.now()
      assert.equal(result.success, true, result.error)
      assert.deepEqual(Object.keys(result), ['success', 'checkpointId', 'path', 'sizeBytes'])
      assert.match(result.checkpointId, /^cp-[0-9a-z]{8,}-[0-9a-z]{6}$/)
      assert.ok(result.path.endsWith(`${result.checkpointId}.json${compress ? '.gz' : ''}`))

      const stored = await store.getCheckpoint('s', result.checkpointId)
      assert.equal(Object.keys(stored).join(' '), CHECKPOINT_MEMBERS)
      assert.equal(Object.keys(stored.session).join(' '), SESSION_MEMBERS)
      assert.equal(stored.id, result.checkpointId)
      assert.equal(stored.sessionId, 's')
      assert.ok(before <= stored.timestamp && stored.timestamp <= after)
      assert.equal(stored.trigger, 'milestone')
      assert.equal(stored.description, 'half way')
      assert.equal(stored.session.lastCheckpointId, result.checkpointId)
      assert.deepEqual(stored.session.checkpointIds, ['cp-older-000001', result.checkpointId])
      assert.deepEqual(stored.session.metrics, session.metrics)
      assert.deepEqual(stored.taskTree, session.taskTree)
      assert.deepEqual(stored.agentStates, agents)
      assert.deepEqual(stored.contextStore, context)
      assert.deepEqual(stored.metadata, { build: 12 })
      assert.equal(stored.version, '1.0.0')
      assert.equal(stored.sizeBytes, result.sizeBytes, 'reads report the stored size')
      assert.equal(stored.checksum, originalChecksum(stored))
      assert.equal(stored.integrity, integrityOf({ ...stored, sizeBytes: 0 }))
      assert.deepEqual(session.checkpointIds, ['cp-older-000001'], 'the caller keeps its list')
    })
  }

  it('Maps are taken for what they hold', async () => {
    const store = await open()
    const tree = makeTree(2)
    const session = makeSession('s', { taskTree: new Map(Object.entries(tree)) })
    const agents = new Map([['a', makeAgent('a')]])
    await checkpointOf(store, session, OPTIONS, agents, new Map([['__proto__', 1]]))
    const stored = await store.getLatestCheckpoint('s')
    assert.deepEqual(stored.taskTree, tree)
    assert.deepEqual(stored.agentStates, { a: makeAgent('a') })
    assert.equal(JSON.stringify(stored.contextStore), '{"__proto__":1}')
  })

  it('context is left out unless it is asked for', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(
      store,
      makeSession('s'),
      { ...OPTIONS, includeContext: false },
      {},
      { a: 1 },
    )
    assert.deepEqual((await store.getCheckpoint('s', checkpointId)).contextStore, {})
    const undefinedContext = await store.createCheckpoint(makeSession('s'), undefined, undefined, OPTIONS)
    assert.equal(undefinedContext.success, true)
  })

  it('session members that the contract does not know are kept, after those that it knows', async () => {
    const store = await open()
    const session = { ...makeSession('s'), budget: { usd: 3 }, 42: 'answer', lane: 'fast' }
    await checkpointOf(store, session)
    const { session: stored } = await store.getLatestCheckpoint('s')
    assert.deepEqual([stored.budget, stored[42], stored.lane], [{ usd: 3 }, 'answer', 'fast'])
    assert.deepEqual(Object.keys(stored).slice(-2), ['budget', 'lane'])
  })

  it('a session with a toJSON of its own is still stored member by member', async () => {
    const store = await open()
    await checkpointOf(store, { ...makeSession('s'), toJSON: () => 'not this' })
    assert.equal((await store.getLatestCheckpoint('s')).session.name, 'A session')
  })

  it('the short form makes a checkpoint of the session alone', async () => {
    const store = await open()
    const result = await store.createCheckpoint(makeSession('s'), { trigger: 'auto' })
    assert.equal(result.success, true, result.error)
    const stored = await store.getCheckpoint('s', result.checkpointId)
    assert.equal(stored.trigger, 'auto')
    assert.deepEqual([stored.agentStates, stored.contextStore], [{}, {}])
    assert.equal('description' in stored || 'metadata' in stored, false)
  })

  it('what is stored is the state at the moment of the call', async () => {
    const store = await open()
    const session = makeSession('s')
    const agents = { a: makeAgent('a') }
    const context = { step: 1 }
    const pending = [
      store.createCheckpoint(session, agents, context, OPTIONS),
      store.saveSession(session),
      store.saveTaskTree('s', session.taskTree),
    ]
    session.name = 'changed'
    session.taskTree['task-0'].status = 'failed'
    agents.a.state = 'failed'
    context.step = 2
    await Promise.all(pending)
    const stored = await store.getLatestCheckpoint('s')
    assert.equal(stored.session.name, 'A session')
    assert.equal(stored.taskTree['task-0'].status, 'pending')
    assert.equal(stored.agentStates.a.state, 'running')
    assert.equal(stored.contextStore.step, 1)
    assert.equal((await store.loadSession('s')).name, 'A session')
    assert.equal((await store.loadTaskTree('s'))['task-0'].status, 'pending')
  })

  it('they are listed newest first, exact even within one millisecond, in the order of the calls', async () => {
    const store = await open()
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: index % 2 === 0, description: `${index}` }),
      ),
    )
    const { checkpoints, total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual(
      checkpoints.map((checkpoint) => checkpoint.id),
      made.map((result) => result.checkpointId).toReversed(),
    )
    assert.deepEqual(checkpoints.map((checkpoint) => checkpoint.description).slice(0, 3), ['39', '38', '37'])
    assert.deepEqual([total, damaged], [40, []])
    assert.equal((await store.getLatestCheckpoint('s')).description, '39')
  })

  it('lists are paged; total is not', async () => {
    const store = await open()
    for (let index = 0; index < 5; index += 1) {
      await checkpointOf(store, makeSession('s'), { ...OPTIONS, description: `${index}` })
    }
    const page = async (...paging) => {
      const { checkpoints, total } = await store.listCheckpoints('s', ...paging)
      assert.equal(total, 5)
      return checkpoints.map((checkpoint) => checkpoint.description).join('')
    }
    assert.equal(await page(), '43210')
    assert.equal(await page(0), '43210')
    assert.equal(await page(2), '43')
    assert.equal(await page(2, 1), '32')
    assert.equal(await page(undefined, 3), '10')
    assert.equal(await page(10, 4), '0')
    assert.equal(await page(1, 9), '')
  })

  it('one that does not exist is null, and no failure to delete', async () => {
    const store = await open()
    assert.equal(await store.getCheckpoint('s', 'cp-none'), null)
    assert.equal(await store.getLatestCheckpoint('s'), null)
    assert.deepEqual(await store.listCheckpoints('s'), { checkpoints: [], total: 0, damaged: [] })
    assert.deepEqual(await store.deleteCheckpoint('s', 'cp-none'), { success: true })
  })

  it('deleting takes one, compressed or not', async () => {
    const store = await open()
    for (const compress of [true, false]) {
      const doomed = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
      const kept = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
      assert.deepEqual(await store.deleteCheckpoint('s', doomed.checkpointId), { success: true })
      assert.equal(await store.getCheckpoint('s', doomed.checkpointId), null)
      assert.ok(await store.getCheckpoint('s', kept.checkpointId))
    }
    assert.equal((await store.listCheckpoints('s')).total, 2)
  })

  it('retention keeps the newest, whatever their encoding, and leaves other sessions alone', async () => {
    const store = await open(3)
    await checkpointOf(store, makeSession('other'))
    const made = []
    for (let index = 0; index < 7; index += 1) {
      const { checkpointId } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: index % 2 === 1 })
      made.push(checkpointId)
      const { checkpoints, total } = await store.listCheckpoints('s')
      assert.deepEqual(
        checkpoints.map((checkpoint) => checkpoint.id),
        made.slice(-3).toReversed(),
      )
      assert.equal(total, Math.min(3, index + 1))
    }
    assert.equal((await store.listCheckpoints('other')).total, 1)
  })

  it('the limit may be given by name, and may be none', async () => {
    const few = await open({ maxCheckpointsPerSession: 1 })
    const all = await open({ maxCheckpointsPerSession: Infinity })
    for (let index = 0; index < 3; index += 1) {
      await checkpointOf(few, makeSession('s'))
      await checkpointOf(all, makeSession('s'))
    }
    assert.equal((await few.listCheckpoints('s')).total, 1)
    assert.equal((await all.listCheckpoints('s')).total, 3)
  })

  it('a toJSON may call the store in the middle of it all', async () => {
    const store = await open()
    const inner = []
    const context = { now: { toJSON: () => inner.push(store.saveTaskResult('s', 'inner', 1)) && 'done' } }
    await checkpointOf(store, makeSession('s'), OPTIONS, {}, context)
    assert.equal((await inner[0]).success, true)
    assert.deepEqual((await store.getLatestCheckpoint('s')).contextStore, throughJson({ now: 'done' }))
  })
})
