import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { emptyStore } from '../support/invalid-values.mjs'
import { integrityOf, originalChecksum } from '../support/original-format.mjs'
import { makeAgent, makeSession, makeTree, throughJson } from '../support/sessions.mjs'
import { OPTIONS, checkpointIdsOf, checkpointOf, onEveryBackend } from '../support/stores.mjs'

const CHECKPOINT_MEMBERS =
  'id sessionId timestamp trigger description session taskTree agentStates contextStore checksum version sizeBytes metadata taskCount agentCount label parent integrity'
const SESSION_MEMBERS =
  'id name description status rootTaskId lastCheckpointId checkpointIds autoCheckpointIntervalMs config createdAt startedAt expiresAt metrics errors metadata'

onEveryBackend('createCheckpoint', (open) => {
  for (const compress of [false, true]) {
    const kind = compress ? 'compressed' : 'plain'

    it(`stores the whole state in the documented member order, ${kind}`, async () => {
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

  it('accepts Maps', async () => {
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

  it('stores the context only with includeContext', async () => {
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

  it('keeps unknown session members after the known ones', async () => {
    const store = await open()
    const session = { ...makeSession('s'), budget: { usd: 3 }, 42: 'answer', lane: 'fast' }
    await checkpointOf(store, session)
    const { session: stored } = await store.getLatestCheckpoint('s')
    assert.deepEqual([stored.budget, stored[42], stored.lane], [{ usd: 3 }, 'answer', 'fast'])
    assert.deepEqual(Object.keys(stored).slice(-2), ['budget', 'lane'])
  })

  it('stores a session with a toJSON member by member', async () => {
    const store = await open()
    await checkpointOf(store, { ...makeSession('s'), toJSON: () => 'not this' })
    assert.equal((await store.getLatestCheckpoint('s')).session.name, 'A session')
  })

  it('with a session alone stores no agents and no context', async () => {
    const store = await open()
    const result = await store.createCheckpoint(makeSession('s'), { trigger: 'auto' })
    assert.equal(result.success, true, result.error)
    const stored = await store.getCheckpoint('s', result.checkpointId)
    assert.equal(stored.trigger, 'auto')
    assert.deepEqual([stored.agentStates, stored.contextStore], [{}, {}])
    assert.equal('description' in stored || 'metadata' in stored, false)
  })

  it('stores the state at the moment of the call', async () => {
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

  it('allows a toJSON to call the store', async () => {
    const store = await open()
    const inner = []
    const context = { now: { toJSON: () => inner.push(store.saveTaskResult('s', 'inner', 1)) && 'done' } }
    await checkpointOf(store, makeSession('s'), OPTIONS, {}, context)
    assert.equal((await inner[0]).success, true)
    assert.deepEqual((await store.getLatestCheckpoint('s')).contextStore, throughJson({ now: 'done' }))
  })
})

onEveryBackend('concurrent createCheckpoint calls', (open) => {
  it('are ordered as they were made', async () => {
    const store = await open({ maxCheckpointsPerSession: 200 })
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, number) => checkpointOf(store, makeSession('s', { name: `${number}` }))),
    )
    assert.deepEqual(
      (await checkpointIdsOf(store)).toReversed(),
      made.map(({ checkpointId }) => checkpointId),
    )
  })
})

describe('createCheckpoint arguments', () => {
  it('session.checkpointIds must be an array', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const checkpointIds of [undefined, null, 'cp', {}, new Set()]) {
      const result = await store.createCheckpoint({ ...makeSession('s'), checkpointIds }, {}, {}, OPTIONS)
      assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT')
      assert.match(result.error, /^session\.checkpointIds must be an array; got /)
    }
    isUntouched()
  })

  it('options are checked one by one', async () => {
    const { store, isUntouched } = await emptyStore()
    const bad = [
      [undefined, /^options must be an object; got undefined\. Call createCheckpoint\(session, agentStates, /],
      [null, /^options must be an object; got null$/],
      ['auto', /^options must be an object; got "auto"$/],
      [[], /^options must be an object; got an array$/],
      [{}, /^options\.trigger must be one of .*; got undefined$/],
      [{ trigger: 'whim' }, /^options\.trigger must be one of .*; got "whim"$/],
      [{ trigger: 'auto', description: 5 }, /^options\.description must be a string; got 5$/],
      [{ trigger: 'auto', includeContext: 'yes' }, /^options\.includeContext must be true or false; got "yes"$/],
      [{ trigger: 'auto', compress: 1 }, /^options\.compress must be true or false; got 1$/],
      [{ trigger: 'auto', metadata: 'x' }, /^options\.metadata must be an object; got "x"$/],
    ]
    for (const [options, message] of bad) {
      const long = await store.createCheckpoint(makeSession('s'), {}, {}, options)
      const short = await store.createCheckpoint(makeSession('s'), options)
      const results = options === undefined ? [short] : [long, short]
      for (const result of results) {
        assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT')
        assert.match(result.error, message)
      }
    }
    isUntouched()
  })

  it('a part whose toJSON returns no object is rejected by name', async () => {
    const { store, isUntouched } = await emptyStore()
    const text = { toJSON: () => 'just text' }
    const gone = { toJSON: () => undefined }
    for (const agents of [text, gone]) {
      const result = await store.createCheckpoint(makeSession('s'), agents, {}, OPTIONS)
      assert.equal(result.code, 'WAYMARK_NOT_SERIALIZABLE')
      assert.match(result.error, /^agentStates must become a JSON object; its toJSON\(\) made /)
    }
    isUntouched()
  })
})
