import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { NEVER } from '../support/auto-checkpoint.mjs'
import { LONG, contents, ownerAndOther } from '../support/leases.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { OPTIONS, backends, checkpointOf, durableBackends, openStore, scratchDirectory } from '../support/stores.mjs'

const session = makeSession('s')

/** Writes to session `s` that a lost lease rejects. */
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

for (const name of durableBackends) {
  describe(`a write rejected for a lost lease (${name})`, () => {
    /** A store whose lease of `s` another store has taken over; its timer would notice after an hour. */
    async function withLostLease() {
      const location = backends[name]()
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
      it(`aborts the signal of that lease and of no other: ${method}`, async () => {
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

    it('aborts the signal before its caller gets the result', async () => {
      const { store, lease } = await withLostLease()
      const order = []
      lease.signal.addEventListener('abort', () => order.push('aborted'))
      await store.saveSession(session).then(() => order.push('answered'))
      assert.deepEqual(order, ['aborted', 'answered'])
    })

    it('aborts nothing if the rejected store has no lease', async () => {
      const { other, otherLease, lease, taken } = await withLostLease()
      assert.equal((await other.saveTaskResult('other', 't', 1)).code, 'WAYMARK_LEASE_LOST')
      const signals = [otherLease, lease, taken].map(({ signal }) => signal.aborted)
      assert.deepEqual(signals, [false, false, false])
    })

    it('does not abort a released lease', async () => {
      const { store, lease } = await withLostLease()
      await lease.release()
      assert.equal((await store.saveSession(session)).code, 'WAYMARK_LEASE_LOST')
      assert.deepEqual([lease.signal.aborted, lease.isLost], [false, false])
    })

    it('aborts the lease of a store that is the target of copyTo', async () => {
      const { store, lease } = await withLostLease()
      const source = await openStore(`sqlite:${join(scratchDirectory(), 'source.db')}`)
      await source.saveSession(makeSession('s', { name: 'from elsewhere' }))
      await assert.rejects(source.copyTo(store), { code: 'WAYMARK_LEASE_LOST' })
      assert.equal(lease.signal.aborted, true)
    })
  })
}

describe('a write rejected for a missing lease', () => {
  const writes = {
    saveSession: ({ other }) => other.saveSession(makeSession('s')),
    'saveSession with ifRevision': ({ other }) => other.saveSession(makeSession('s'), { ifRevision: null }),
    saveTaskTree: ({ other }) => other.saveTaskTree('s', {}),
    saveTaskResult: ({ other }) => other.saveTaskResult('s', 'new', 1),
    createCheckpoint: ({ other }) => other.createCheckpoint(makeSession('s'), OPTIONS),
    'createCheckpoint with ifParent': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent: null }),
    'createCheckpoint as a delta': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, encoding: 'delta' }),
    'save of an agent': ({ other }) => other.agent('s', 'new').save({ messages: [] }),
    setRetention: ({ other }) => other.setRetention('s', { keepLast: 1 }),
    copyTo: ({ other, from }) => from.copyTo(other),
  }
  for (const [name, write] of Object.entries(writes)) {
    it(`leaves nothing of a session that its owner has not created yet: ${name}`, async () => {
      const world = await ownerAndOther()
      world.from = await openStore()
      await checkpointOf(world.from, makeSession('s'))
      const result = await write(world).catch((error) => error)
      assert.equal(result.code, 'WAYMARK_LEASE_LOST')
      assert.deepEqual(contents(world.location), {})
    })
  }

  it('does not keep the owner from creating the session', async () => {
    const { owner, other } = await ownerAndOther()
    const { checkpointId } = await checkpointOf(owner, makeSession('source'))
    assert.equal((await other.saveSession(makeSession('s'))).code, 'WAYMARK_LEASE_LOST')
    const forked = await owner.forkSession({ sessionId: 'source', checkpointId, newSessionId: 's' })
    assert.equal(forked.success, true, forked.error)
  })

  it('does not restore what the next owner deleted', async () => {
    const { location, owner, other } = await ownerAndOther()
    await owner.saveSession(makeSession('s'))
    const next = await other.acquireSession('s', { force: true, ...LONG })
    await other.deleteSession('s')
    await next.release()
    for (const write of [owner.saveSession(makeSession('s')), owner.createCheckpoint(makeSession('s'), OPTIONS)]) {
      assert.equal((await write).code, 'WAYMARK_LEASE_LOST')
    }
    assert.deepEqual(contents(location), {})
  })

  const changes = {
    'createCheckpoint as a delta': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, encoding: 'delta' }),
    'recoverSession with quarantine': ({ other }) => other.recoverSession('s', { quarantine: true }),
    'save of a new agent': ({ other }) => other.agent('s', 'new').save({ messages: [] }),
    convert: ({ other }) => other.convert('s', 'json'),
    deleteSessionCheckpoints: ({ other }) => other.deleteSessionCheckpoints('s'),
    prune: async ({ other }) => (await other.prune()).failed[0],
    importSession: ({ other, archive }) => other.importSession(archive, { as: 's' }),
  }
  for (const [name, change] of Object.entries(changes)) {
    it(`leaves the session unchanged: ${name}`, async () => {
      const world = await ownerAndOther({ keepPrevious: 2 })
      const { location, owner } = world
      for (const version of ['first', 'second']) await owner.saveSession(makeSession('s', { name: version }))
      await checkpointOf(owner, makeSession('s'), { ...OPTIONS, encoding: 'delta' })
      // Left by an interruption: only the owner may remove it.
      const directory = join(location, 's', 'checkpoints')
      writeFileSync(join(directory, 'cp-1-000000.key.zst'), 'a base without deltas')
      writeFileSync((await checkpointOf(owner, makeSession('s'))).path, '{"damaged')
      const from = await openStore()
      await checkpointOf(from, makeSession('s'))
      world.archive = join(scratchDirectory(), 's.zst')
      await from.exportSession('s', world.archive)
      const before = contents(location)
      const result = await change(world).catch((error) => error)
      assert.match(result.code, name === 'importSession' ? /LEASE_LOST|EXISTS/ : /LEASE_LOST/)
      assert.deepEqual(contents(location), before)
    })
  }

  it('adds nothing to the base of a former owner', async () => {
    const { location, owner, other } = await ownerAndOther()
    const context = (step) =>
      Object.fromEntries(
        Array.from({ length: 200 }, (_, key) => [`k${key}`, key < 3 * step ? `new ${step}` : `${key}`]),
      )
    const create = (store, step) =>
      store.createCheckpoint(makeSession('s'), {}, context(step), { ...OPTIONS, encoding: 'delta' })
    for (let step = 0; step < 3; step += 1) assert.equal((await create(owner, step)).success, true)
    await other.acquireSession('s', { force: true, ...LONG })
    const before = contents(location)
    // One of these would extend the base.
    for (let step = 3; step < 7; step += 1) assert.equal((await create(owner, step)).code, 'WAYMARK_LEASE_LOST')
    assert.deepEqual(contents(location), before)
  })

  for (const name of durableBackends) {
    it(`fails with WAYMARK_LEASE_LOST before any other reason (${name})`, async () => {
      const location = backends[name]()
      const [owner, other] = [await openStore(location), await openStore(location)]
      await owner.saveSession(makeSession('s'))
      await checkpointOf(owner, makeSession('s'))
      await owner.acquireSession('s', LONG)
      assert.equal((await other.saveSession(session, { ifRevision: null })).code, 'WAYMARK_LEASE_LOST')
      assert.equal((await other.createCheckpoint(session, { ...OPTIONS, ifParent: null })).code, 'WAYMARK_LEASE_LOST')
    })
  }
})
