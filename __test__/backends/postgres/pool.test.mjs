import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { outcomeOf } from '../../support/fault-outcomes.mjs'
import '../../support/postgres-servers.mjs'
import { startProxy } from '../../support/proxy.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { OPTIONS, newSchema, openStore } from '../../support/stores.mjs'
import { until } from '../../support/waiting.mjs'

const CALLS = 50
const SLACK_MS = 2000

/** Concurrent writes and reads. */
const allAtOnce = (store) =>
  Promise.all(
    Array.from({ length: CALLS }, (_, number) =>
      outcomeOf(() => {
        if (number % 3 === 0) return store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
        if (number % 3 === 1) return store.saveTaskResult('s', `t${number}`, number)
        return store.listSessions().then(() => ({ success: true }))
      }),
    ),
  )

describe('the connection pool', () => {
  for (const maxConnections of [1, 3, undefined]) {
    it(`has at most ${maxConnections ?? 10} connections and serves fifty concurrent calls`, async (t) => {
      const proxy = await startProxy(newSchema())
      t.after(() => proxy.close())
      const store = await openStore(proxy.url, maxConnections && { maxConnections })
      for (const { ended, error } of await allAtOnce(store)) assert.equal(ended, 'done', error)
      assert.ok(proxy.mostConnections <= (maxConnections ?? 10), `${proxy.mostConnections} connections`)
      assert.equal((await store.listCheckpointInfo('s')).total, Math.ceil(CALLS / 3))
      await store.close()
    })
  }

  it('of one connection serves calls with many steps', async () => {
    const store = await openStore(newSchema(), { maxConnections: 1 })
    const other = await openStore(newSchema(), { maxConnections: 1 })
    await store.saveSession(makeSession('s'))
    for (let number = 0; number < 5; number += 1) await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
    await store.copyTo(other)
    let walked = 0
    for await (const { id } of store.checkpoints('s')) {
      assert.ok(await other.getCheckpoint('s', id))
      walked += 1
    }
    assert.equal(walked, 5)
    const { checkpointId } = await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
    const fork = { sessionId: 's', checkpointId, newSessionId: 'fork' }
    assert.equal((await store.forkSession(fork)).success, true)
    assert.deepEqual(await store.listSessions(), ['fork', 's'])
    await Promise.all([store.close(), other.close()])
  })

  it('of stuck connections fails every call in time, however many wait', async (t) => {
    const proxy = await startProxy(newSchema())
    t.after(() => proxy.close())
    const store = await openStore(proxy.url, { maxConnections: 2, timeoutMs: 1000 })
    proxy.fail('hang')
    for (const { ended, error, ms } of await allAtOnce(store)) {
      assert.ok(['WAYMARK_IO', 'WAYMARK_OUTCOME_UNKNOWN'].includes(ended), `${ended}: ${error}`)
      assert.ok(ms < 1000 + SLACK_MS, `${ms} ms`)
    }
    await proxy.heal()
    for (const { ended, error } of await allAtOnce(store)) assert.equal(ended, 'done', error)
    await store.close()
  })

  it('is closed with the store', async (t) => {
    const proxy = await startProxy(newSchema())
    t.after(() => proxy.close())
    const store = await openStore(proxy.url)
    await allAtOnce(store)
    assert.ok(proxy.connections > 0)
    await store.close()
    await until(() => proxy.connections === 0)
    await store.initialize()
    assert.deepEqual(await store.listSessions(), [])
    await store.close()
  })
})
