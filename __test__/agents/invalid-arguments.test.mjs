import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { makeState, saved, savedAll, stateIn } from '../support/agents.mjs'
import { INVALID_IDS, NOT_STRINGS, UNSTORABLE, emptyStore } from '../support/invalid-values.mjs'
import { makeSession } from '../support/sessions.mjs'
import { CheckpointStore, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

/** Every agent method with valid arguments. */
const METHODS = {
  save: [{ iteration: 1 }],
  latest: [],
  get: ['cp-1'],
  list: [],
  info: [],
  has: [],
  prune: [1],
  clear: [],
  delete: ['cp-1'],
  verify: ['cp-1'],
}

/** Calls a method that must fail by its own convention; returns the error or the failed result. */
async function failureOf(agent, name, args = METHODS[name]) {
  let call
  assert.doesNotThrow(() => (call = agent[name](...args)), `${name} must not throw synchronously`)
  if (name === 'save' || name === 'delete') {
    const { success, error, code } = await call
    assert.equal(success, false, `${name} must not succeed`)
    return { message: error, code }
  }
  return call.then(
    () => assert.fail(`${name} must reject`),
    (error) => error,
  )
}

describe('agent ids and agent checkpoint ids', () => {
  it('every method rejects ids that are not strings, and agent() never throws', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const [value, shown] of NOT_STRINGS) {
      for (const [agent, argument] of [
        [store.agent(value, 'a'), 'sessionId'],
        [store.agent('s', value), 'agentId'],
      ]) {
        for (const name of Object.keys(METHODS)) {
          const { message, code } = await failureOf(agent, name)
          assert.deepEqual([message, code], [`${argument} must be a string; got ${shown}`, 'WAYMARK_INVALID_ARGUMENT'])
        }
      }
      for (const name of ['get', 'delete', 'verify']) {
        const { message } = await failureOf(store.agent('s', 'a'), name, [value])
        assert.equal(message, `checkpointId must be a string; got ${shown}`)
      }
    }
    assert.equal((await failureOf(store.agent(), 'latest')).code, 'WAYMARK_INVALID_ARGUMENT')
    isUntouched()
  })

  it('every method rejects ids that cannot be file names, and agent() never throws', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const id of INVALID_IDS) {
      for (const [agent, kind] of [
        [store.agent(id, 'a'), 'session'],
        [store.agent('s', id), 'agent'],
      ]) {
        for (const name of Object.keys(METHODS)) {
          const { message, code } = await failureOf(agent, name)
          assert.equal(code, 'WAYMARK_INVALID_ID', `${JSON.stringify(id)}: ${message}`)
          assert.ok(message.startsWith(`Invalid ${kind} id "`), message)
        }
      }
      for (const name of ['get', 'delete', 'verify']) {
        const { message, code } = await failureOf(store.agent('s', 'a'), name, [id])
        assert.equal(code, 'WAYMARK_INVALID_ID')
        assert.ok(message.startsWith('Invalid checkpoint id "'), message)
      }
      await assert.rejects(store.listAgents(id), { code: 'WAYMARK_INVALID_ID' })
    }
    isUntouched()
  })
})

describe('agent state', () => {
  it('save rejects a state that is not an object', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const [value, shown] of [...NOT_STRINGS.filter(([v]) => Object(v) !== v || Array.isArray(v)), ['s', '"s"']]) {
      const { message, code } = await failureOf(store.agent('s', 'a'), 'save', [value])
      assert.deepEqual([message, code], [`state must be an object; got ${shown}`, 'WAYMARK_INVALID_ARGUMENT'])
    }
    assert.equal((await failureOf(store.agent('s', 'a'), 'save', [() => {}])).code, 'WAYMARK_INVALID_ARGUMENT')
    isUntouched()
  })

  it('save names the invalid member and its value', async () => {
    const { store, isUntouched } = await emptyStore()
    const whole = [-1, 1.5, '1', NaN, Infinity, 1n, null]
    const amounts = [-0.1, '1', NaN, Infinity, null]
    const texts = [5, null, {}, ['x'], Object('text')]
    const lists = ['x', { length: 0 }, null, new Set(), new Uint8Array(2)]
    const numbers = [new ArrayBuffer(2), new Uint16Array(2), new Int8Array(2), new Uint8ClampedArray(2)]
    const bytes = ['AAEC', [0, 1], null, ...numbers, new DataView(numbers[0]), { type: 'Buffer', data: [1] }]
    const bad = {
      iteration: ['a whole number, 0 or more', whole],
      tokensUsed: ['a number, 0 or more', amounts],
      costEstimate: ['a number, 0 or more', amounts],
      ttlMs: ['a whole number', [...whole, 0, 0.5]],
      status: ['one of "in_progress", "completed", "failed" and "halted"', ['done', '', null, 1, 'Completed']],
      statusReason: ['a string', texts],
      resumeHint: ['a string', texts],
      label: ['a string', [...texts, '', 'é'.repeat(101), 'x'.repeat(201)]],
      messages: ['an array', lists],
      toolCalls: ['an array', lists],
      pendingToolCalls: ['an array', lists],
      partialResults: ['an array', lists],
      metadata: ['an object', ['x', [], null, () => {}]],
      context: ['a Uint8Array', bytes],
    }
    for (const [member, [expected, values]] of Object.entries(bad)) {
      for (const value of values) {
        const state = makeState({ [member]: value })
        const { message, code } = await failureOf(store.agent('s', 'a'), 'save', [state])
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', `${member}: ${message}`)
        assert.ok(message.startsWith(`state.${member} must be ${expected}`), message)
        assert.match(message, /; got .{1,300}$/)
      }
    }
    const { message } = await failureOf(store.agent('s', 'a'), 'save', [{ iteration: '7' }])
    assert.equal(message, 'state.iteration must be a whole number, 0 or more; got "7"')
    isUntouched()
  })

  for (const [kind, value] of Object.entries(UNSTORABLE)) {
    it(`save rejects a state with ${kind} anywhere in it and writes nothing`, async () => {
      const { store, isUntouched } = await emptyStore()
      const states = [
        { mine: value },
        { metadata: { value } },
        { messages: [{ role: 'user', content: value }] },
        { toolCalls: [value] },
        { pendingToolCalls: [value] },
        { partialResults: [[value]] },
      ]
      for (const state of states) {
        for (const compress of [false, true]) {
          const { message, code } = await failureOf(store.agent('s', 'a'), 'save', [state, { compress }])
          assert.equal(code, 'WAYMARK_NOT_SERIALIZABLE', message)
          assert.match(message, /^state cannot be stored as JSON: ./)
        }
      }
      isUntouched()
    })
  }

  it('a rejected save leaves the stored checkpoints unchanged', async () => {
    const store = await openStore('memory:', { maxCheckpointsPerAgent: 1 })
    const agent = store.agent('s', 'a')
    const { checkpointId } = await saved(agent, makeState())
    for (const state of [null, { iteration: -1 }, { mine: 1n }, { context: [] }])
      await failureOf(agent, 'save', [state])
    await failureOf(agent, 'save', [{}, { compress: 'yes' }])
    const { checkpoints, total } = await agent.info()
    assert.deepEqual([checkpoints[0].id, total], [checkpointId, 1])
  })
})

describe('agent options', () => {
  it('every method checks its options one by one', async () => {
    const { store, isUntouched } = await emptyStore()
    const bad = [
      ['save', [{}, null], 'options must be an object; got null'],
      ['save', [{}, 'gzip'], 'options must be an object; got "gzip"'],
      ['save', [{}, []], 'options must be an object; got an array'],
      ['save', [{}, { compress: 1 }], 'options.compress must be true or false; got 1'],
      ['prune', [], 'keep must be a whole number, 0 or more; got undefined'],
      ['prune', [-1], 'keep must be a whole number, 0 or more; got -1'],
      ['prune', [1.5], 'keep must be a whole number, 0 or more; got 1.5'],
      ['prune', [NaN], 'keep must be a whole number, 0 or more; got NaN'],
      ['prune', ['1'], 'keep must be a whole number, 0 or more; got "1"'],
      ['prune', [{ keep: 1 }], 'keep must be a whole number, 0 or more; got an object'],
    ]
    for (const name of ['list', 'info']) {
      bad.push(
        [name, [null], 'options must be an object; got null'],
        [name, [10], 'options must be an object; got 10'],
        [name, [{ order: 'x' }], 'options.order must be "newest" or "iteration"; got "x"'],
        [name, [{ order: null }], 'options.order must be "newest" or "iteration"; got null'],
        [name, [{ limit: -1 }], 'options.limit must be a whole number, 0 or more; got -1'],
        [name, [{ limit: '1' }], 'options.limit must be a whole number, 0 or more; got "1"'],
        [name, [{ cursor: 5 }], 'options.cursor must be a string; got 5'],
      )
    }
    for (const [name, args, expected] of bad) {
      const { message, code } = await failureOf(store.agent('s', 'a'), name, args)
      assert.deepEqual([message, code], [expected, 'WAYMARK_INVALID_ARGUMENT'])
    }
    isUntouched()
  })

  it('list and info reject a cursor of another order or of the session', async () => {
    const store = await openStore('memory:')
    const agent = store.agent('s', 'a')
    for (const iteration of [1, 2, 3]) {
      await saved(agent, { iteration })
      await checkpointOf(store, makeSession('s'))
    }
    const cursorOf = async (order) => (await agent.info({ order, limit: 1 })).cursor
    const [newest, iteration] = [await cursorOf('newest'), await cursorOf('iteration')]
    const { cursor: ofSession } = await store.listCheckpointInfo('s', { limit: 1 })
    const bad = ['', '/', '//', 'x', '1/2/3', '../../etc/passwd', ofSession]
    for (const [order, cursors] of Object.entries({ newest: [...bad, iteration], iteration: [...bad, newest] })) {
      for (const cursor of cursors) {
        for (const name of ['list', 'info']) {
          const { message, code } = await failureOf(agent, name, [{ order, cursor }])
          assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
          assert.ok(
            message.startsWith('options.cursor must be the cursor of an earlier page in the same order'),
            message,
          )
        }
      }
    }
  })

  it('the constructor rejects a maxCheckpointsPerAgent that is not a whole number of at least 1 or Infinity', () => {
    for (const maxCheckpointsPerAgent of [0, -1, 1.5, NaN, '5', null]) {
      assert.throws(() => new CheckpointStore('memory:', { maxCheckpointsPerAgent }), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options\.maxCheckpointsPerAgent must be a whole number of at least 1, or Infinity; got /,
      })
    }
  })
})

describe('agents of a store that is not open', () => {
  it('every method rejects, whatever its arguments', async () => {
    const store = new CheckpointStore(scratchDirectory())
    const agents = [store.agent('s', 'a'), store.agent('..', ''), store.agent()]
    const allReject = async (code) => {
      for (const agent of agents) {
        for (const [name, args] of Object.entries(METHODS)) await assert.rejects(agent[name](...args), { code })
      }
      await assert.rejects(store.listAgents('s'), { code })
    }
    await allReject('WAYMARK_NOT_INITIALIZED')
    await store.initialize()
    assert.equal(await agents[0].has(), false)
    await store.close()
    await allReject('WAYMARK_CLOSED')
  })
})

onEveryBackend('agent state and arguments', (open) => {
  it('prune rejects null instead of removing everything', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await savedAll(agent, [{}, {}])
    await assert.rejects(agent.prune(null), {
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'keep must be a whole number, 0 or more; got null',
    })
    assert.equal((await agent.info()).total, 2)
  })

  for (const [kind, state] of Object.entries({
    'a Map': new Map([
      ['iteration', 'x'],
      ['messages', 'hello'],
      ['context', new Uint8Array([1])],
    ]),
    'a Set': new Set([{ role: 'user', content: 'hello' }]),
  })) {
    it(`save rejects ${kind} as a state`, async () => {
      const store = await open()
      const result = await store.agent('s', 'a').save(state)
      assert.deepEqual(
        [result.code, result.error],
        ['WAYMARK_INVALID_ARGUMENT', `state must be an object; got ${kind}`],
      )
      assert.equal(await store.agent('s', 'a').has(), false)
    })
  }

  for (const compress of [false, true]) {
    for (const made of ['text', null, { a: 1 }]) {
      const kind = `${JSON.stringify(made)}, ${compress ? 'compressed' : 'plain'}`

      it(`save rejects a list whose toJSON returns no list: ${kind}`, async () => {
        const store = await open()
        for (const name of ['messages', 'toolCalls']) {
          const list = Object.assign([1], { toJSON: () => made })
          const result = await store.agent('s', 'a').save({ [name]: list }, { compress })
          assert.deepEqual([result.success, result.code], [false, 'WAYMARK_NOT_SERIALIZABLE'], `${result.error}`)
        }
        assert.equal(await store.agent('s', 'a').has(), false)
      })
    }
  }

  it('save stores the value it checked, even if a getter returns another one later', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    let asked = 0
    const state = {
      get iteration() {
        asked += 1
        return asked === 1 ? 1 : 'not a number'
      },
    }
    await saved(agent, state)
    assert.equal((await agent.latest()).iteration, 1)
  })

  it('save keeps a member named toJSON that is not a function', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, { toJSON: 'data' })
    assert.deepEqual(stateIn(await agent.latest()), { messages: [], toolCalls: [], toJSON: 'data' })
  })
})
