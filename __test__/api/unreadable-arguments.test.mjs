import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { NEVER } from '../support/auto-checkpoint.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { CheckpointStore, OPTIONS, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

function revoked(target = {}) {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** The result of a call, or what it rejected with. */
const outcome = (call) =>
  Promise.resolve()
    .then(call)
    .catch((error) => error)

const session = makeSession('s')

/** Calls with a revoked proxy in one argument. */
const CALLS = {
  'saveSession(session)': (store, proxy) => store.saveSession(proxy),
  'saveSession(…, options)': (store, proxy) => store.saveSession(session, proxy),
  saveTaskTree: (store, proxy) => store.saveTaskTree('s', proxy),
  'createCheckpoint(session)': (store, proxy) => store.createCheckpoint(proxy, OPTIONS),
  'createCheckpoint(…, agentStates)': (store, proxy) => store.createCheckpoint(session, proxy, {}, OPTIONS),
  'createCheckpoint(…, contextStore)': (store, proxy) => store.createCheckpoint(session, {}, proxy, OPTIONS),
  'createCheckpoint(…, options)': (store, proxy) => store.createCheckpoint(session, {}, {}, proxy),
  'session.taskTree': (store, proxy) => store.createCheckpoint({ ...session, taskTree: proxy }, OPTIONS),
  'session.checkpointIds': (store, proxy) => store.createCheckpoint({ ...session, checkpointIds: proxy }, OPTIONS),
  'options.metadata': (store, proxy) => store.createCheckpoint(session, {}, {}, { ...OPTIONS, metadata: proxy }),
  restoreCheckpoint: (store, proxy) => store.restoreCheckpoint(proxy),
  recoverSession: (store, proxy) => store.recoverSession('s', proxy),
  forkSession: (store, proxy) => store.forkSession(proxy),
  'agent.save(state)': (store, proxy) => store.agent('s', 'a').save(proxy),
  'agent state.messages': (store, proxy) => store.agent('s', 'a').save({ messages: proxy }),
  'agent state.metadata': (store, proxy) => store.agent('s', 'a').save({ metadata: proxy }),
  'agent.save(…, options)': (store, proxy) => store.agent('s', 'a').save({}, proxy),
  'agent.list': (store, proxy) => store.agent('s', 'a').list(proxy),
  listCheckpointInfo: (store, proxy) => store.listCheckpointInfo('s', proxy),
  setRetention: (store, proxy) => store.setRetention('s', proxy),
  'prune(options)': (store, proxy) => store.prune('s', proxy),
  'prune(proxy)': (store, proxy) => store.prune(proxy),
  expireSessions: (store, proxy) => store.expireSessions(0, proxy),
  exportSession: (store, proxy) => store.exportSession('s', 'x', proxy),
  copyTo: (store, proxy) => store.copyTo(store, proxy),
  verifySession: (store, proxy) => store.verifySession('s', proxy),
  acquireSession: (store, proxy) => store.acquireSession('s', proxy),
  acquireNext: (store, proxy) => store.acquireNext(proxy),
  'acquireNext status': (store, proxy) => store.acquireNext({ status: proxy }),
  autoCheckpoint: (store, proxy) => store.autoCheckpoint(proxy),
}

onEveryBackend('a revoked proxy', (open) => {
  for (const [name, call] of Object.entries(CALLS)) {
    it(`is rejected by ${name} with WAYMARK_INVALID_ARGUMENT and the TypeError as cause`, async () => {
      const store = await open()
      for (const proxy of [revoked(), revoked([])]) {
        const { code, cause, error, message } = await outcome(() => call(store, proxy))
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', error ?? message)
        assert.ok(cause instanceof TypeError, `${error ?? message}: ${cause}`)
        assert.match(cause.message, /revoked/)
      }
      assert.deepEqual(await store.listSessions(), [])
    })
  }

  it('is rejected by the constructor with WAYMARK_INVALID_ARGUMENT', () => {
    for (const proxy of [revoked(), revoked([])]) {
      assert.throws(
        () => new CheckpointStore('memory:', proxy),
        ({ code, cause }) => code === 'WAYMARK_INVALID_ARGUMENT' && cause instanceof TypeError,
      )
    }
  })
})

onEveryBackend('a value that a getter or toJSON throws', (open) => {
  const thrownValues = [null, undefined, 0, '', 'text', 10n, Symbol('s'), false, { an: 'object' }, new Error('e')]

  it('is the cause of the error, whatever it is', async () => {
    const store = await open()
    for (const thrown of thrownValues) {
      const getter = {
        get part() {
          throw thrown
        },
      }
      const method = {
        toJSON() {
          throw thrown
        },
      }
      const calls = [
        store.saveSession({ ...session, metadata: getter }),
        store.saveTaskTree('s', { task: method }),
        store.saveTaskResult('s', 't', getter),
        store.createCheckpoint(session, {}, { method }, OPTIONS),
        store.agent('s', 'a').save({ partialResults: [getter] }),
      ]
      for (const result of await Promise.all(calls)) {
        assert.deepEqual([result.success, result.code], [false, 'WAYMARK_NOT_SERIALIZABLE'], result.error)
        assert.ok('cause' in result)
        assert.ok(Object.is(result.cause, thrown), `${String(thrown)}: ${String(result.cause)}`)
      }
      const options = {
        get limit() {
          throw thrown
        },
      }
      const error = await store.listCheckpointInfo('s', options).then(assert.fail, (rejection) => rejection)
      assert.ok('cause' in error && Object.is(error.cause, thrown), String(thrown))
    }
    assert.deepEqual(await store.listSessions(), [])
  })

  it('or a toJSON that returns no object is rejected for a session and a task tree', async () => {
    const store = await open()
    for (const made of [[1], 'text', 5, null]) {
      const toJSON = () => made
      for (const result of [
        await store.saveSession({ ...session, toJSON }),
        await store.saveTaskTree('s', { ...makeTree(), toJSON }),
      ]) {
        assert.deepEqual([result.success, result.code], [false, 'WAYMARK_NOT_SERIALIZABLE'], result.error)
        assert.match(result.error, /must become a JSON object; its toJSON\(\) made /)
      }
    }
    assert.deepEqual(await store.listSessions(), [])
  })
})

describe('options with a getter that throws', () => {
  const THROWN = {
    error: new Error('boom'),
    undefined,
    'an unreadable error': Object.defineProperty(new Error('boom'), 'message', {
      get() {
        throw new Error('not even that')
      },
    }),
  }
  const throwing = (name, thrown) => ({
    get [name]() {
      throw thrown
    },
  })
  const LONG = {
    exportSession: (store, options) => store.exportSession('s', join(scratchDirectory(), 'x.zst'), options),
    importSession: (store, options) => store.importSession('x.zst', options),
    verifySession: (store, options) => store.verifySession('s', options),
    convert: (store, options) => store.convert('s', 'gzip', options),
    copyTo: (store, options) => store.copyTo(store, options),
  }
  for (const [method, call] of Object.entries(LONG)) {
    it(`are rejected with a code: ${method}`, async () => {
      const store = await openStore()
      for (const thrown of Object.values(THROWN)) {
        for (const name of ['onProgress', 'signal']) {
          const error = await call(store, throwing(name, thrown)).catch((rejected) => rejected)
          assert.equal(error?.code, 'WAYMARK_INVALID_ARGUMENT')
          assert.equal(error.cause, thrown)
        }
      }
    })
  }

  it('are rejected with a code: AutoCheckpoint', async () => {
    const store = await openStore()
    for (const thrown of Object.values(THROWN)) {
      assert.throws(() => store.autoCheckpoint(throwing('sessionId', thrown)), { code: 'WAYMARK_INVALID_ARGUMENT' })
      for (const name of ['session', 'agentStates', 'contextStore']) {
        const capture = () =>
          Object.defineProperties({ session }, Object.getOwnPropertyDescriptors(throwing(name, thrown)))
        const auto = store.autoCheckpoint({ sessionId: 's', policy: NEVER, capture })
        for (const work of [() => auto.now(), () => auto.stop()]) {
          await assert.rejects(work, { code: 'WAYMARK_INVALID_ARGUMENT' })
        }
      }
    }
  })

  it('of AutoCheckpoint.now() leave nothing behind', async () => {
    const store = await openStore()
    const gate = {}
    let captures = 0
    const capture = async () => {
      captures += 1
      await new Promise((resolve) => {
        gate.open = resolve
      })
      return { session }
    }
    const auto = store.autoCheckpoint({ sessionId: 's', policy: NEVER, capture })
    const first = auto.now()
    await assert.rejects(auto.now(throwing('label', new Error('boom'))), { code: 'WAYMARK_INVALID_ARGUMENT' })
    gate.open()
    assert.ok((await first).success)
    assert.equal(captures, 1)
  })
})
