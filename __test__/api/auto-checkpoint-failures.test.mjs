import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { CheckpointPolicy } from '../../index.js'
import { NEVER, autoOf, state, total } from '../support/auto-checkpoint.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { CheckpointStore, onEveryBackend, openStore } from '../support/stores.mjs'
import { manualTimer, until } from '../support/waiting.mjs'

onEveryBackend('autoCheckpoint failures', (open) => {
  const failures = {
    'a capture that throws': {
      capture: () => {
        throw new RangeError('no state today')
      },
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'capture() failed: no state today',
      cause: RangeError,
    },
    'a capture that rejects': {
      capture: () => Promise.reject(new RangeError('no state today')),
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'capture() failed: no state today',
      cause: RangeError,
    },
    'a capture that throws something that is no Error': {
      capture: () => {
        throw 'a string'
      },
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'capture() failed: it threw "a string"',
    },
    'a capture that returns nothing': {
      capture: () => undefined,
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'What capture() returns must be an object with a session; got undefined',
    },
    'a capture that resolves to null': {
      capture: async () => null,
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'What capture() returns must be an object with a session; got null',
    },
    'a capture without a session': {
      capture: () => ({ agentStates: {} }),
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'The session that capture() returns must be an object; got undefined',
    },
    'a capture of another session': {
      capture: () => ({ session: makeSession('other') }),
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'The id of the session that capture() returns must be "s"; got "other"',
    },
    'a state that the store refuses': {
      capture: () => ({ session: { id: 's' } }),
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'session.taskTree must be a Map or an object; got undefined',
    },
    'a state that JSON cannot hold': {
      capture: () => ({ ...state(), contextStore: { big: 1n } }),
      code: 'WAYMARK_NOT_SERIALIZABLE',
      message: /^contextStore cannot be stored as JSON: .*BigInt/,
      cause: TypeError,
    },
  }

  for (const [name, { capture, cause, ...expected }] of Object.entries(failures)) {
    it(`${name} calls onError, stores nothing, and the next checkpoint is taken`, async () => {
      const store = await open()
      const { auto, seen } = autoOf(store, {
        policy: CheckpointPolicy.afterToolCall(),
        capture: (nth) => (nth <= 2 ? capture() : state()),
      })
      assert.equal(await auto.now(), undefined)
      assert.equal(await auto.notify('tool_call', 1), undefined)
      assert.equal(seen.errors.length, 2)
      for (const error of seen.errors) {
        assert.throws(
          () => {
            throw error
          },
          { name: 'Error', ...expected },
        )
        if (cause) assert.ok(error.cause instanceof cause)
      }
      assert.deepEqual([auto.taken, await total(store)], [0, 0])
      assert.equal((await store.listSessions()).length, 0)
      assert.equal((await auto.now()).success, true)
      await auto.stop()
    })

    it(`${name} rejects without onError, and the next checkpoint is taken`, async () => {
      const store = await open()
      const { auto } = autoOf(store, {
        onError: undefined,
        policy: CheckpointPolicy.afterToolCall(),
        capture: (nth) => (nth === 3 ? state() : capture()),
      })
      await assert.rejects(auto.now(), { name: 'Error', ...expected })
      await assert.rejects(auto.notify('tool_call', 1), { name: 'Error', ...expected })
      assert.equal((await auto.now()).success, true)
      await assert.rejects(auto.stop(), { name: 'Error', ...expected })
      assert.equal(await total(store), 1)
    })
  }

  it('a shared failure is reported to every caller', async () => {
    const store = await open()
    const { auto } = autoOf(store, { onError: undefined, capture: (nth) => (nth === 2 ? undefined : state()) })
    const calls = await Promise.allSettled([auto.now(), auto.now(), auto.now()])
    assert.deepEqual(
      calls.map((call) => call.status),
      ['fulfilled', 'rejected', 'rejected'],
    )
    assert.equal(calls[1].reason, calls[2].reason)
    assert.equal((await auto.stop()).success, true)
  })

  it('on the timer call onError, even for a closed store, and the timer continues', async (t) => {
    const store = await open()
    const timer = manualTimer(t)
    const { auto, seen } = autoOf(store, { everyMs: 1 })
    await store.close()
    timer.tick()
    await until(() => seen.errors.length === 1)
    assert.equal(seen.errors[0].code, 'WAYMARK_CLOSED')
    await store.initialize()
    timer.tick()
    await until(() => auto.taken === 1)
    assert.equal(timer.isCleared, false)
    await auto.stop()
  })

  it('on the timer become process warnings without onError', async (t) => {
    const store = await open()
    const timer = manualTimer(t)
    const { mock } = t.mock.method(process, 'emitWarning', () => {})
    const { auto } = autoOf(store, {
      everyMs: 1,
      onError: undefined,
      capture: (nth) => (nth === 1 ? undefined : state()),
    })
    timer.tick()
    await until(() => mock.callCount() === 1)
    assert.equal(mock.calls[0].arguments[0].code, 'WAYMARK_INVALID_ARGUMENT')
    timer.tick()
    await until(() => auto.taken === 1)
    await auto.stop()
    assert.equal(mock.callCount(), 1)
  })

  it('an onError that throws becomes a warning and stops nothing', async (t) => {
    const store = await open()
    const timer = manualTimer(t)
    const { mock } = t.mock.method(process, 'emitWarning', () => {})
    const thrown = new Error('from onError')
    const handlers = [
      () => {
        throw thrown
      },
      async () => {
        throw thrown
      },
      () => {
        throw null
      },
    ]
    const { auto } = autoOf(store, {
      everyMs: 1,
      onError: () => handlers.shift()(),
      capture: (nth) => (nth <= 3 ? undefined : state()),
    })
    assert.equal(await auto.now(), undefined)
    timer.tick()
    await until(() => mock.callCount() === 2)
    assert.equal(await auto.now(), undefined)
    await until(() => mock.callCount() === 3)
    const warnings = mock.calls.map((call) => call.arguments[0])
    assert.deepEqual(warnings.slice(0, 2), [thrown, thrown])
    assert.equal(warnings[2].message, 'onError threw null')
    timer.tick()
    await until(() => auto.taken === 1)
    assert.equal((await auto.stop()).success, true)
  })
})

describe('autoCheckpoint arguments', () => {
  const good = { sessionId: 's', everyMs: 1000, policy: NEVER, capture: () => state(), options: {}, onError: () => {} }
  const wrong = [
    [undefined, 'options must be an object; got undefined'],
    [null, 'options must be an object; got null'],
    [[], 'options must be an object; got an array'],
    [{ ...good, sessionId: undefined }, 'options.sessionId must be a string; got undefined'],
    [{ ...good, sessionId: 5 }, 'options.sessionId must be a string; got 5'],
    ...[0, -1, NaN, Infinity, 2_147_483_648, null].map((everyMs) => [
      { ...good, everyMs },
      `options.everyMs must be a number above 0, 2147483647 at most; got ${everyMs}`,
    ]),
    [{ ...good, everyMs: '5' }, 'options.everyMs must be a number above 0, 2147483647 at most; got "5"'],
    [{ ...good, policy: () => true }, 'options.policy must be a CheckpointPolicy; got a function'],
    [{ ...good, policy: null }, 'options.policy must be a CheckpointPolicy; got null'],
    [{ ...good, capture: undefined }, 'options.capture must be a function; got undefined'],
    [{ ...good, capture: state() }, 'options.capture must be a function; got an object'],
    [{ ...good, options: 'auto' }, 'options.options must be an object; got "auto"'],
    [{ ...good, onError: true }, 'options.onError must be a function; got true'],
    [{ ...good, everyMs: undefined, policy: undefined }, 'options must have everyMs, policy or both; got neither'],
  ]

  it('invalid options throw at once and start no timer', (t) => {
    const timer = manualTimer(t)
    const store = new CheckpointStore('memory:')
    for (const [options, message] of wrong) {
      const refusal = { name: 'Error', code: 'WAYMARK_INVALID_ARGUMENT', message }
      assert.throws(() => store.autoCheckpoint(options), refusal)
    }
    assert.equal(timer.tick, undefined)
  })

  it('an invalid event, iteration or options object rejects and is not remembered', async () => {
    const store = await openStore('memory:')
    const { auto, seen } = autoOf(store, { policy: CheckpointPolicy.everyIterations(5) })
    const code = 'WAYMARK_INVALID_ARGUMENT'
    await assert.rejects(auto.notify('toolCall', 5), { code, message: /^event must be one of "tool_call", / })
    await assert.rejects(auto.notify({ type: 'x' }, 5), { code, message: /^event\.type must be one of / })
    await assert.rejects(auto.notify('iteration', 0.5), { code, message: /^iteration must be a whole number/ })
    await assert.rejects(auto.now('milestone'), { code, message: 'options must be an object; got "milestone"' })
    assert.equal(await auto.notify('iteration'), undefined)
    assert.deepEqual([seen.captures, seen.errors], [0, []])
    await auto.stop()
  })

  it('notify without a policy takes no checkpoint but checks its event', async () => {
    const store = await openStore('memory:')
    const { auto } = autoOf(store, { policy: undefined, everyMs: 1e9 })
    assert.equal(await auto.notify('error', 1), undefined)
    await assert.rejects(auto.notify('oops', 1), { code: 'WAYMARK_INVALID_ARGUMENT' })
    await auto.stop()
  })

  it('the method is not an enumerable member of the store', () => {
    const names = []
    for (const name in new CheckpointStore('memory:')) names.push(name)
    assert.equal(names.includes('autoCheckpoint'), false)
    assert.equal(CheckpointStore.prototype.autoCheckpoint.name, 'autoCheckpoint')
  })
})

onEveryBackend('an autoCheckpoint capture that never settles', (open) => {
  const never = () => new Promise(() => {})

  it('fails after captureTimeoutMs, so that stop() resolves', async () => {
    const store = await open()
    const { auto, seen } = autoOf(store, { capture: never, captureTimeoutMs: 20 })
    const alive = setInterval(() => {}, 1000)
    const first = auto.now()
    assert.equal(await auto.stop(), undefined)
    assert.equal(await first, undefined)
    clearInterval(alive)
    assert.deepEqual([seen.captures, auto.taken, auto.isStopped], [2, 0, true])
    for (const { code, message, cause } of seen.errors) {
      assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
      assert.equal(message, 'capture() failed: it did not settle within 20 ms (captureTimeoutMs)')
      assert.equal(cause.code, 'ETIMEDOUT')
    }
    assert.equal(await total(store), 0)
  })

  it('is ignored when it settles later, and later checkpoints are taken', async () => {
    const store = await open()
    const late = []
    const capture = (number) => (number > 2 ? state() : new Promise((...settle) => late.push(settle)))
    const { auto, seen } = autoOf(store, { capture, captureTimeoutMs: 20 })
    const alive = setInterval(() => {}, 1000)
    assert.deepEqual([await auto.now(), await auto.now()], [undefined, undefined])
    clearInterval(alive)
    late[0][0](state())
    late[1][1](new Error('too late'))
    const { success } = await auto.stop()
    assert.deepEqual([success, seen.errors.length, auto.taken, await total(store)], [true, 2, 1, 1])
  })

  it('has no limit with captureTimeoutMs: Infinity; other values are checked', async () => {
    const store = await open()
    let settle
    const capture = () =>
      new Promise((resolve) => {
        settle = resolve
      })
    const { auto } = autoOf(store, { capture, captureTimeoutMs: Infinity })
    const taken = auto.now()
    settle(state())
    assert.equal((await taken).success, true)
    for (const captureTimeoutMs of [0, -1, Number.NaN, '20', null, 2_147_483_648]) {
      assert.throws(() => autoOf(store, { captureTimeoutMs }), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options\.captureTimeoutMs must be a number above 0, 2147483647 at most, or Infinity; got /,
      })
    }
  })
})

describe('a pending autoCheckpoint capture', () => {
  it('does not keep the process alive', async () => {
    const { code, stderr } = await runNode(`
      const store = new CheckpointStore('memory:')
      await store.initialize()
      const auto = store.autoCheckpoint({ sessionId: 's', everyMs: 1000, capture: () => new Promise(() => {}) })
      auto.stop()
    `)
    assert.equal(code, 0, stderr)
  })
})
