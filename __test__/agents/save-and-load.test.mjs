import assert from 'node:assert/strict'
import { it } from 'node:test'

import { idsIn, makeState, saved, savedAll, stateIn } from '../support/agents.mjs'
import { throughJson } from '../support/sessions.mjs'
import { onEveryBackend } from '../support/stores.mjs'

const ODD_VALUES = {
  strings: ['', '\0', '\u0007', '\u007f', '"', '\\', '/', '\u2028', '\ufeff', '\ud800', '\udc00x', '🟦👩‍💻', '検査点'],
  numbers: [0, -0, 1e21, 1e-7, 5e-324, 2 ** 53, 0.1 + 0.2, NaN, Infinity],
  dropped: [undefined, () => {}, Symbol('x')],
  gone: undefined,
  date: new Date(1_700_000_000_000),
  map: new Map([['a', 1]]),
  set: new Set([1]),
  bytes: new Uint8Array([1, 2]),
  turned: { toJSON: (key) => `from the toJSON of ${key}` },
  boxed: [Object(3), Object('s'), Object(false)],
  look: '{"like": [ "json" ] , "but":"text"}',
  'quote"d \\ key\n': { empty: {}, list: [] },
  // Names with a meaning in session checkpoints and in JavaScript.
  taskTree: { t: 1 },
  agentStates: {},
  checksum: 'mine',
  session: [1],
  trigger: 'mine',
  constructor: 'mine',
  ['__proto__']: { kept: true },
}

const BYTES = {
  'no bytes': new Uint8Array(),
  'one byte': new Uint8Array([255]),
  'two bytes': new Uint8Array([0, 10]),
  'every byte': Uint8Array.from({ length: 256 }, (_, index) => index),
  'three megabytes': Uint8Array.from({ length: 3_000_001 }, (_, index) => (index * 31 + (index >> 8)) % 256),
  'a Buffer': Buffer.from('from the pool'),
  'a view of a part': Uint8Array.from({ length: 100 }, (_, index) => index).subarray(13, 29),
  'shared bytes': new Uint8Array(new SharedArrayBuffer(8)).fill(3),
  'a class of its own': new (class Own extends Uint8Array {})(5).fill(9),
}

onEveryBackend('an agent state', (open) => {
  for (const compress of [false, true]) {
    const kind = compress ? 'compressed' : 'plain'

    it(`returns with every member, ${kind}`, async () => {
      const store = await open()
      const agent = store.agent('s', 'researcher')
      const state = makeState({ context: new Uint8Array([0, 255, 10]) })
      const before = Date.now()
      const result = await saved(agent, state, { compress })
      const after = Date.now()
      assert.deepEqual(Object.keys(result), ['success', 'checkpointId', 'path', 'sizeBytes'])
      assert.match(result.checkpointId, /^cp-[0-9a-z]{8,}-[0-9a-z]{6}$/)
      const latest = await agent.latest()
      const { timestamp, integrity } = latest
      assert.ok(before <= timestamp && timestamp <= after)
      assert.match(integrity, /^[0-9a-f]{64}$/)
      assert.deepEqual(latest, {
        ...state,
        id: result.checkpointId,
        sessionId: 's',
        agentId: 'researcher',
        timestamp,
        version: '1.0.0',
        sizeBytes: result.sizeBytes,
        messageCount: 3,
        toolCallCount: 2,
        integrity,
      })
      assert.deepEqual(await agent.get(result.checkpointId), latest)
      assert.deepEqual(await agent.list(), { checkpoints: [latest], total: 1, damaged: [] })
    })

    it(`returns as JSON would have it, wherever a value is, ${kind}`, async () => {
      const store = await open()
      const agent = store.agent('s', 'a')
      const positions = [
        { ...ODD_VALUES },
        { metadata: ODD_VALUES },
        { messages: [ODD_VALUES, undefined, { role: 'user', content: ODD_VALUES }] },
        { toolCalls: [{ toolName: 'x', arguments: ODD_VALUES, result: ODD_VALUES, success: true }] },
        { pendingToolCalls: [ODD_VALUES], partialResults: [ODD_VALUES, null, -0] },
      ]
      for (const state of positions) {
        await saved(agent, state, { compress })
        assert.deepEqual(stateIn(await agent.latest()), throughJson({ messages: [], toolCalls: [], ...state }))
      }
    })

    it(`may be large, ${kind}`, async () => {
      const store = await open()
      const agent = store.agent('s', 'a')
      const messages = Array.from({ length: 3000 }, (_, index) => ({ role: 'user', content: `é${index}`.repeat(60) }))
      const { checkpointId } = await saved(agent, { messages }, { compress })
      const latest = await agent.latest()
      assert.deepEqual([latest.messages, latest.messageCount], [messages, 3000])
      assert.equal((await agent.verify(checkpointId)).whole, true)
    })

    for (const [name, context] of Object.entries(BYTES)) {
      it(`keeps its bytes: ${name}, ${kind}`, async () => {
        const store = await open()
        const agent = store.agent('s', 'a')
        const { checkpointId } = await saved(agent, { context, iteration: 1 }, { compress })
        const found = [await agent.latest(), await agent.get(checkpointId), (await agent.list()).checkpoints[0]]
        for (const { context: bytes } of found) {
          assert.equal(Object.getPrototypeOf(bytes), Uint8Array.prototype)
          assert.equal(Buffer.compare(bytes, context), 0)
        }
        assert.equal((await agent.verify(checkpointId)).whole, true)
      })
    }
  }

  it('may be empty; messages and toolCalls are then empty lists', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, {})
    const latest = await agent.latest()
    assert.deepEqual(stateIn(latest), { messages: [], toolCalls: [] })
    assert.deepEqual([latest.messageCount, latest.toolCallCount], [0, 0])
    assert.equal('context' in latest || 'expiresAt' in latest || 'passedOver' in latest, false)
  })

  it('has a status, with or without a reason', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    for (const status of ['in_progress', 'completed', 'failed', 'halted']) {
      for (const reason of [{}, { statusReason: '' }, { statusReason: `${status}: "why"\n\ud800` }]) {
        await saved(agent, { status, ...reason })
        assert.deepEqual(stateIn(await agent.latest()), { messages: [], toolCalls: [], status, ...reason })
        const { checkpoints } = await agent.info({ limit: 1 })
        assert.deepEqual([checkpoints[0].status, checkpoints[0].statusReason], [status, reason.statusReason])
      }
    }
  })

  it('may be a class instance; its toJSON and inherited members are ignored', async () => {
    class Progress {
      iteration = 3
      get inherited() {
        return 'not stored'
      }
      toJSON() {
        return 'not this'
      }
    }
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, new Progress())
    assert.deepEqual(stateIn(await agent.latest()), { messages: [], toolCalls: [], iteration: 3 })
    await saved(agent, { iteration: 4, toJSON: () => 'not this' })
    assert.equal((await agent.latest()).iteration, 4)
  })

  it('is stored as it is at the moment of the call', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const context = new Uint8Array(100_000).fill(1)
    const state = makeState({ context })
    const expected = throughJson(makeState())
    const saving = agent.save(state)
    state.messages[0].content = 'changed'
    state.messages.push({ role: 'user', content: 'later' })
    state.metadata.team = 'red'
    state.iteration = 8
    context.fill(2)
    delete state.context
    assert.equal((await saving).success, true)
    const { context: stored, ...rest } = stateIn(await agent.latest())
    assert.deepEqual(rest, expected)
    assert.ok(stored.every((byte) => byte === 1))
  })

  it('is a copy when it is loaded: changing it changes nothing stored', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, { context: new Uint8Array([1]), messages: [{ role: 'user', content: 'x' }] })
    const first = await agent.latest()
    first.context[0] = 2
    first.messages[0].content = 'y'
    const second = await agent.latest()
    assert.deepEqual([second.context[0], second.messages[0].content], [1, 'x'])
  })

  it('can be loaded, changed and saved as a new checkpoint', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, makeState({ context: new Uint8Array([1, 2]), ttlMs: 60_000 }))
    const first = await agent.latest()
    const { checkpointId } = await saved(agent, { ...first, iteration: 8, messages: [] }, { compress: true })
    const second = await agent.latest()
    assert.equal(second.id, checkpointId)
    assert.notEqual(second.id, first.id)
    assert.deepEqual(stateIn(second), { ...stateIn(first), iteration: 8, messages: [] })
    assert.deepEqual([second.messageCount, second.toolCallCount], [0, 2])
    assert.equal(second.expiresAt, second.timestamp + 60_000)
    assert.equal((await agent.verify(checkpointId)).whole, true)
    assert.deepEqual(await agent.get(first.id), first)
  })

  it('of one agent can be saved by another', async () => {
    const store = await open()
    await saved(store.agent('s', 'a'), makeState())
    await saved(store.agent('t', 'b'), await store.agent('s', 'a').latest())
    const { sessionId, agentId, ...rest } = await store.agent('t', 'b').latest()
    assert.deepEqual([sessionId, agentId], ['t', 'b'])
    assert.deepEqual(stateIn(rest), throughJson(makeState()))
  })
})

onEveryBackend('agent checkpoints', (open) => {
  it('are empty at first', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    assert.equal(await agent.latest(), null)
    assert.equal(await agent.get('cp-none'), null)
    const nothing = { checkpoints: [], total: 0, damaged: [] }
    assert.deepEqual([await agent.list(), await agent.info()], [nothing, nothing])
    assert.deepEqual([await agent.has(), await agent.prune(0), await agent.clear()], [false, 0, 0])
    assert.deepEqual(await agent.delete('cp-none'), { success: true })
    await assert.rejects(agent.verify('cp-none'), { code: 'WAYMARK_NOT_FOUND', message: /cp-none in agent a of/ })
    assert.deepEqual(await store.listAgents('s'), [])
    assert.deepEqual(await store.sessionsInfo(), [], 'asking leaves no trace')
  })

  it('accept every valid id, however unusual', async () => {
    const store = await open()
    const names = ['a', '検査', "it's", 'with space', '__proto__', 'checkpoints', 'agents', 'a.json', 'x'.repeat(200)]
    for (const name of names) {
      await saved(store.agent('s', name), { metadata: { name } })
      const { agentId, metadata } = await store.agent('s', name).latest()
      assert.deepEqual([agentId, metadata.name], [name, name])
    }
    assert.deepEqual(await store.listAgents('s'), names.toSorted())
  })

  it('belong to one agent of one session, whichever handle is used', async () => {
    const store = await open()
    const early = store.agent('s', 'a')
    const [id] = await savedAll(store.agent('s', 'a'), [{ iteration: 1 }])
    assert.equal((await early.latest()).id, id)
    for (const other of [store.agent('s', 'b'), store.agent('t', 'a')]) {
      assert.deepEqual([await other.latest(), await other.get(id), await other.has()], [null, null, false])
      await assert.rejects(other.verify(id), { code: 'WAYMARK_NOT_FOUND' })
      assert.equal((await other.delete(id)).success, true)
    }
    assert.equal(await early.has(), true)
    assert.deepEqual(await store.listAgents('s'), ['a'])
    assert.deepEqual(await store.listAgents('t'), [])
  })

  it('saved concurrently by many agents all stay, in call order', async () => {
    const store = await open()
    const names = Array.from({ length: 30 }, (_, index) => `agent-${index}`)
    const calls = Array.from({ length: 6 }, (_, iteration) =>
      names.map((name) => store.agent('s', name).save({ iteration, metadata: { name } }, { compress: iteration > 3 })),
    )
    const results = await Promise.all(calls.flat())
    assert.equal(new Set(results.map(({ checkpointId }) => checkpointId)).size, 180)
    assert.deepEqual(await store.listAgents('s'), names.toSorted())
    for (const name of names) {
      const { checkpoints } = await store.agent('s', name).list()
      assert.equal(checkpoints.map(({ iteration }) => iteration).join(''), '543210')
      assert.ok(checkpoints.every(({ metadata }) => metadata.name === name))
    }
  })

  it('are available after the store was closed and opened', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const underWay = Array.from({ length: 8 }, (_, iteration) => agent.save({ iteration }))
    await store.close()
    const made = (await Promise.all(underWay)).map(({ checkpointId }) => checkpointId)
    await assert.rejects(agent.latest(), { code: 'WAYMARK_CLOSED' })
    await store.initialize()
    assert.deepEqual(idsIn(await agent.info()), made.toReversed())
  })
})
