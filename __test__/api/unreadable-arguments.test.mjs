import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { NEVER } from '../support/auto.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import {
  CheckpointStore,
  OPTIONS,
  durablePlaces,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

function revoked(target = {}) {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** What a call came to: a result, or what it rejected with. */
const outcome = (call) =>
  Promise.resolve()
    .then(call)
    .catch((error) => error)

const session = makeSession('s')

/** Calls that are passed a revoked proxy in one of their arguments. */
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
    it(`is refused by ${name} with WAYMARK_INVALID_ARGUMENT and the TypeError as cause`, async () => {
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

  it('is refused by the constructor likewise', () => {
    for (const proxy of [revoked(), revoked([])]) {
      assert.throws(
        () => new CheckpointStore('memory:', proxy),
        ({ code, cause }) => code === 'WAYMARK_INVALID_ARGUMENT' && cause instanceof TypeError,
      )
    }
  })
})

onEveryBackend('what a getter or a toJSON throws', (open) => {
  const thrownValues = [null, undefined, 0, '', 'text', 10n, Symbol('s'), false, { an: 'object' }, new Error('e')]

  it('is the cause, whatever it is', async () => {
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

  it('may be nothing that becomes an object: a session or a task tree must', async () => {
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

if (durablePlaces.includes('files')) {
  describe('documents of the wrong shape', () => {
    const SHAPES = ['[1]', '"text"', '5', 'null', ' [] ']

    async function withFiles() {
      const base = scratchDirectory()
      const store = await openStore(base)
      await store.saveSession(session)
      await store.saveTaskTree('s', makeTree())
      const { checkpointId } = await store.createCheckpoint(session, OPTIONS)
      await store.labelCheckpoint('s', checkpointId, 'label')
      await store.setRetention('s', { keepLast: 5 })
      assert.equal((await store.verifySession('s')).whole, true)
      return { store, checkpointId, write: (name, text) => writeFileSync(join(base, 's', name), text) }
    }

    for (const [name, what] of [
      ['session.json', 'session'],
      ['task-tree.json', 'task tree'],
      ['labels.json', 'document of labels'],
      ['retention.json', 'document of retention'],
    ]) {
      it(`verifySession reports a ${name} that is no object`, async () => {
        const { store, write } = await withFiles()
        for (const text of SHAPES) {
          write(name, text)
          const { whole, files } = await store.verifySession('s')
          const report = files.find(({ path }) => path.endsWith(name))
          assert.deepEqual([whole, report.whole, report.code], [false, false, 'WAYMARK_CORRUPT'], text)
          assert.match(report.error, new RegExp(`it holds no JSON object, so it is no ${what}$`))
        }
      })
    }

    it('loadSession and loadTaskTree reject with WAYMARK_CORRUPT', async () => {
      const { store, write } = await withFiles()
      for (const text of SHAPES) {
        write('session.json', text)
        write('task-tree.json', text)
        for (const load of [() => store.loadSession('s'), () => store.loadTaskTree('s')]) {
          await assert.rejects(load, { code: 'WAYMARK_CORRUPT', message: /it holds no JSON object/ })
        }
      }
    })

    it('verifySession reports the session document of another session', async () => {
      const { store, write } = await withFiles()
      write('session.json', JSON.stringify({ ...session, id: 'other' }))
      const { whole, files } = await store.verifySession('s')
      const report = files.find(({ path }) => path.endsWith('session.json'))
      assert.deepEqual([whole, report.whole, report.code], [false, false, 'WAYMARK_CORRUPT'])
      assert.match(report.error, /it is the document of session "other"/)
      // As in a copy of its directory, it can still be loaded, and restoring gives it its own id.
      assert.equal((await store.loadSession('s')).id, 'other')
      assert.equal((await store.recoverSession('s')).success, true)
      assert.equal((await store.loadSession('s')).id, 's')
      assert.equal((await store.verifySession('s')).whole, true)
    })

    it('verifySession reports a label that is no text', async () => {
      const { store, checkpointId, write } = await withFiles()
      write('labels.json', JSON.stringify({ [checkpointId]: 5 }))
      const { whole, files } = await store.verifySession('s')
      assert.equal(whole, false)
      assert.match(files.find(({ path }) => path.endsWith('labels.json')).error, /is 5$/)
    })
  })
}

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
    it(`reject with a code: ${method}`, async () => {
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

  it('reject with a code: AutoCheckpoint', async () => {
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
