import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import '../../support/postgres-servers.mjs'
import { startProxy } from '../../support/proxy.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { checkpointOf, newSchema, openStore } from '../../support/stores.mjs'

/** A store with one connection, and the proxy that counts its round trips. */
async function countedStore(t, options) {
  const proxy = await startProxy(newSchema())
  const store = await openStore(proxy.url, { ...options, maxConnections: 1 })
  t.after(async () => {
    await store.close()
    await proxy.close()
  })
  /** The minimum of several calls: an early answer can make one round trip count as two, never the reverse. */
  const tripsOf = async (call) => {
    let least = Infinity
    for (let n = 0; n < 10; n += 1) {
      const before = proxy.roundTrips
      await call()
      least = Math.min(least, proxy.roundTrips - before)
    }
    return least
  }
  return { store, tripsOf }
}

describe('round trips to the server', () => {
  for (const durability of ['full', 'relaxed']) {
    it(`one for each write with ${durability} durability`, async (t) => {
      const { store, tripsOf } = await countedStore(t, { durability })
      const session = makeSession('s')
      const writes = {
        createCheckpoint: () => checkpointOf(store, session),
        saveTaskResult: () => store.saveTaskResult('s', 't', { n: 1 }),
        saveSession: () => store.saveSession(session),
      }
      for (const [name, write] of Object.entries(writes)) {
        assert.equal(await tripsOf(write), 1, name)
      }
    })
  }

  it('listAllCheckpoints takes the same number for more sessions', async (t) => {
    const { store, tripsOf } = await countedStore(t)
    const tripsFor = async (from, to) => {
      for (let n = from; n < to; n += 1) await checkpointOf(store, makeSession(`s${n}`))
      return tripsOf(async () => {
        const { checkpoints } = await store.listAllCheckpoints({ limit: 40 })
        assert.equal(checkpoints.length, Math.min(to, 40))
      })
    }
    const few = await tripsFor(0, 3)
    const many = await tripsFor(3, 50)
    t.diagnostic(`${few} for 3 sessions, ${many} for 50`)
    assert.equal(many, few)
    assert.ok(many <= 5, `${many} round trips`)
  })
})
