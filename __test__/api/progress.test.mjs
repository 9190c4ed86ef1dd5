import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { makeSession, makeTask } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore } from '../support/stores.mjs'

const COUNT = 60

async function filled(open) {
  const store = await open({ durability: 'relaxed' })
  const session = makeSession('s')
  for (let at = 0; at < 200; at += 1) session.taskTree[`t${at}`] = makeTask(`t${at}`, { prompt: `${Math.sin(at)}` })
  for (let made = 0; made < COUNT; made += 1) await checkpointOf(store, session, OPTIONS)
  return store
}

/** A signal that is aborted when the first listener is added: the call has begun and done nothing yet. */
function abortedAsWorkBegins() {
  return {
    aborted: false,
    reason: new Error('enough'),
    addEventListener(_, abort) {
      this.aborted = true
      abort()
    },
    removeEventListener() {},
  }
}

/** For each phase: the call, and whether work remains. */
const WORK = {
  convert: {
    run: (store, options) => store.convert('s', 'gzip', options),
    left: async (store) => (await store.convert('s', 'gzip')).converted,
  },
  copy: {
    run: async (store, options, other) => store.copyTo(other, { ...options, sessionId: 's' }),
    left: async (store, other) => (await store.copyTo(other)).checkpoints,
  },
  prune: {
    run: (store, options) => store.prune({ ...options, retention: { keepLast: 1 } }),
    left: async (store) => (await store.prune('s', { retention: { keepLast: 1 } })).removed.length,
  },
  verify: {
    run: (store, options) => store.verifySession('s', options),
    left: async (store) => (await store.verifySession('s')).checkpoints.length,
  },
}

describe('copyTo progress', () => {
  it('reports the total from the beginning', async () => {
    const store = await openStore('memory:')
    const sessions = Array.from({ length: 40 }, (_, number) => `s${number}`)
    for (const id of sessions) {
      for (let count = 0; count < 20; count += 1) await checkpointOf(store, makeSession(id))
    }
    const told = []
    await store.copyTo(await openStore(), { onProgress: (progress) => told.push(progress) })
    for (const { total } of told) assert.ok(total >= 800, `${total} of 800 checkpoints`)
    assert.equal(told.at(-1).done, told.at(-1).total)
  })
})

onEveryBackend('onProgress and signal', (open) => {
  for (const [phase, { run, left }] of Object.entries(WORK)) {
    it(`onProgress reports how far the call is (${phase})`, async () => {
      const store = await filled(open)
      const told = []
      await run(store, { onProgress: (progress) => told.push(progress) }, await openStore())
      const last = told.at(-1)
      assert.equal(last.phase, phase)
      assert.equal(last.done, last.total)
      assert.ok(last.done >= COUNT && last.bytes > 0, JSON.stringify(last))
    })

    it(`an aborted call continues when it is called again (${phase})`, async () => {
      const store = await filled(open)
      const other = await openStore()
      const stopped = AbortSignal.abort(new Error('enough'))
      await assert.rejects(run(store, { signal: stopped }, other), ({ name, code, cause }) => {
        assert.deepEqual([name, code, cause.message], ['AbortError', 'ABORT_ERR', 'enough'])
        return true
      })
      await assert.rejects(run(store, { signal: abortedAsWorkBegins() }, other), { code: 'ABORT_ERR' })
      assert.ok((await left(store, other)) > COUNT / 2)
      assert.equal((await store.verifySession('s')).whole, true)
    })

    it(`an abort at any moment loses nothing (${phase})`, async () => {
      const store = await filled(open)
      const other = await openStore()
      const controller = new AbortController()
      const running = run(store, { signal: controller.signal }, other)
      controller.abort()
      // The call may end before it can be aborted.
      const outcome = await running.then(
        () => 'done',
        ({ code }) => code,
      )
      assert.ok(['ABORT_ERR', 'done'].includes(outcome), outcome)
      assert.equal((await store.verifySession('s')).whole, true)
    })

    it(`the call rejects with what onProgress throws (${phase})`, async () => {
      const store = await filled(open)
      const thrown = new Error('no more')
      const onProgress = () => {
        throw thrown
      }
      await assert.rejects(run(store, { onProgress }, await openStore()), (error) => error === thrown)
    })

    it(`an invalid callback or signal is rejected (${phase})`, async () => {
      const store = await filled(open)
      const other = await openStore()
      for (const options of [{ onProgress: 'often' }, { signal: {} }, { signal: 5 }])
        await assert.rejects(run(store, options, other), { code: 'WAYMARK_INVALID_ARGUMENT' })
    })
  }
})
