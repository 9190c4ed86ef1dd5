import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { NEVER } from '../support/auto.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, durablePlaces, openStore, places, scratchDirectory } from '../support/stores.mjs'

const session = makeSession('s')

/** Writes to session `s`, each of which a lost lease refuses. */
const WRITES = {
  saveSession: (store) => store.saveSession(session),
  'saveSession with ifRevision': (store) => store.saveSession(session, { ifRevision: null }),
  saveTaskTree: (store) => store.saveTaskTree('s', makeTree()),
  saveTaskResult: (store) => store.saveTaskResult('s', 't', 1),
  createSessionDirectory: (store) => store.createSessionDirectory('s'),
  'createCheckpoint json': (store) => store.createCheckpoint(session, {}, {}, OPTIONS),
  'createCheckpoint delta': (store) => store.createCheckpoint(session, {}, {}, { ...OPTIONS, encoding: 'delta' }),
  deleteCheckpoint: (store, id) => store.deleteCheckpoint('s', id),
  deleteSessionCheckpoints: (store) => store.deleteSessionCheckpoints('s'),
  labelCheckpoint: (store, id) => store.labelCheckpoint('s', id, 'l'),
  pinCheckpoint: (store, id) => store.pinCheckpoint('s', id),
  restoreCheckpoint: (store, id) => store.restoreCheckpoint({ sessionId: 's', checkpointId: id }),
  recoverSession: (store) => store.recoverSession('s'),
  setRetention: (store) => store.setRetention('s', { keepLast: 1 }),
  prune: (store) => store.prune('s', { retention: { keepLast: 1 } }),
  convert: (store) => store.convert('s', 'gzip'),
  deleteSession: (store) => store.deleteSession('s'),
  'agent.save': (store) => store.agent('s', 'a').save({ iteration: 2 }),
  autoCheckpoint: (store) => {
    const auto = store.autoCheckpoint({ sessionId: 's', policy: NEVER, capture: () => ({ session }) })
    return auto.now()
  },
}

for (const name of durablePlaces) {
  describe(`a write that is refused because its lease is lost (${name})`, () => {
    /** A store whose lease of `s` another store has taken without a word; the timer would notice in an hour. */
    async function withLostLease() {
      const location = places[name]()
      const [store, other] = [await openStore(location), await openStore(location)]
      await store.saveSession(session)
      await checkpointOf(store, session)
      const { checkpointId } = await checkpointOf(store, session)
      await store.agent('s', 'a').save({ iteration: 1 })
      const lease = await store.acquireSession('s', { ttlMs: 3_600_000 })
      const otherLease = await store.acquireSession('other', { ttlMs: 3_600_000 })
      const taken = await other.acquireSession('s', { force: true })
      return { store, other, lease, otherLease, taken, checkpointId }
    }

    for (const [method, write] of Object.entries(WRITES)) {
      it(`aborts the signal of that lease, and of no other: ${method}`, async () => {
        const { store, lease, otherLease, taken, checkpointId } = await withLostLease()
        assert.equal(lease.signal.aborted, false)
        const result = await write(store, checkpointId).catch((error) => error)
        assert.deepEqual([lease.signal.aborted, lease.isLost], [true, true], JSON.stringify(result))
        const { reason } = lease.signal
        assert.ok(reason instanceof Error)
        assert.equal(reason.code, 'WAYMARK_LEASE_LOST')
        assert.match(reason.message, /^The lease of session s is lost: /)
        await assert.rejects(lease.renew(), (error) => error === reason)
        assert.deepEqual([otherLease.signal.aborted, taken.signal.aborted], [false, false])
        await lease.release()
      })
    }

    it('aborts before the caller of the write is answered', async () => {
      const { store, lease } = await withLostLease()
      const order = []
      lease.signal.addEventListener('abort', () => order.push('aborted'))
      await store.saveSession(session).then(() => order.push('answered'))
      assert.deepEqual(order, ['aborted', 'answered'])
    })

    it('aborts nothing if the refused store has no lease', async () => {
      const { other, otherLease, lease, taken } = await withLostLease()
      assert.equal((await other.saveTaskResult('other', 't', 1)).code, 'WAYMARK_LEASE_LOST')
      const signals = [otherLease, lease, taken].map(({ signal }) => signal.aborted)
      assert.deepEqual(signals, [false, false, false])
    })

    it('does not abort a lease that was released', async () => {
      const { store, lease } = await withLostLease()
      await lease.release()
      assert.equal((await store.saveSession(session)).code, 'WAYMARK_LEASE_LOST')
      assert.deepEqual([lease.signal.aborted, lease.isLost], [false, false])
    })

    it('aborts the lease of a store that something is copied to', async () => {
      const { store, lease } = await withLostLease()
      const source = await openStore(`sqlite:${join(scratchDirectory(), 'source.db')}`)
      await source.saveSession(makeSession('s', { name: 'from elsewhere' }))
      await assert.rejects(source.copyTo(store), { code: 'WAYMARK_LEASE_LOST' })
      assert.equal(lease.signal.aborted, true)
    })
  })
}
