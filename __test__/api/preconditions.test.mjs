import assert from 'node:assert/strict'
import { readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { DELTA, assertAllWhole, createInSequence } from '../support/deltas.mjs'
import { makeSession } from '../support/sessions.mjs'
import {
  OPTIONS,
  backends,
  checkpointOf,
  durableBackends,
  onEveryBackend,
  onSharedBackends,
  openStore,
} from '../support/stores.mjs'

const NOBODYS = 'f'.repeat(32)

onEveryBackend('saveSession with ifRevision', (open) => {
  it('saves over the expected revision only', async () => {
    const store = await open()
    const first = await store.saveSession(makeSession('s', { name: 'first' }))
    assert.match(first.revision, /^[0-9a-f]{32}$/)
    const second = await store.saveSession(makeSession('s', { name: 'second' }), { ifRevision: first.revision })
    assert.equal(second.success, true)
    const late = await store.saveSession(makeSession('s', { name: 'late' }), { ifRevision: first.revision })
    assert.deepEqual([late.success, late.code, late.current], [false, 'WAYMARK_CONFLICT', second.revision])
    assert.ok(late.error.includes(second.revision) && late.error.includes('Session s'), late.error)
    assert.equal((await store.loadSession('s')).name, 'second')
  })

  it('null saves only if the session does not exist', async () => {
    const store = await open()
    const missing = await store.saveSession(makeSession('s'), { ifRevision: NOBODYS })
    assert.deepEqual([missing.code, missing.current], ['WAYMARK_CONFLICT', null])
    assert.equal(await store.loadSession('s'), null)
    const first = await store.saveSession(makeSession('s'), { ifRevision: null })
    assert.equal(first.success, true)
    const again = await store.saveSession(makeSession('s'), { ifRevision: null })
    assert.deepEqual([again.code, again.current], ['WAYMARK_CONFLICT', first.revision])
  })

  it('takes the revision of a load, which every change replaces', async () => {
    const store = await open()
    const { revision } = await store.saveSession(makeSession('s', { status: 'completed', expiresAt: 1 }))
    const loaded = await store.loadSession('s', { withRevision: true })
    assert.deepEqual(loaded, { session: await store.loadSession('s'), revision })
    assert.equal(await store.loadSession('unknown', { withRevision: true }), null)
    assert.equal((await store.expireSessions()).length, 1)
    const archived = await store.loadSession('s', { withRevision: true })
    assert.notEqual(archived.revision, revision)
    assert.equal((await store.saveSession(makeSession('s'), { ifRevision: revision })).current, archived.revision)
    const { checkpointId } = await checkpointOf(store, makeSession('s', { name: 'restored' }))
    await store.restoreCheckpoint({ sessionId: 's', checkpointId })
    assert.notEqual((await store.loadSession('s', { withRevision: true })).revision, archived.revision)
  })

  it('is equal for equal sessions in every location', async () => {
    const session = makeSession('s', { name: 'Zürich' })
    const [here, there] = [await open(), await openStore()]
    const saved = await here.saveSession(session)
    assert.equal((await there.saveSession(session)).revision, saved.revision)
    assert.equal((await here.saveSession(session)).revision, saved.revision)
  })

  it('lets one of many concurrent calls succeed', async () => {
    const store = await open()
    let { revision } = await store.saveSession(makeSession('s', { name: '0' }))
    for (let round = 1; round <= 3; round += 1) {
      const writers = Array.from({ length: 20 }, (_, number) =>
        store.saveSession(makeSession('s', { name: `${round}/${number}` }), { ifRevision: revision }),
      )
      const results = await Promise.all(writers)
      const winners = results.filter(({ success }) => success)
      assert.equal(winners.length, 1)
      for (const { success, code } of results) assert.ok(success || code === 'WAYMARK_CONFLICT')
      revision = winners[0].revision
    }
  })

  it('keeps the previous version, and none of a rejected call', async () => {
    const store = await open({ keepPrevious: 5 })
    const { revision } = await store.saveSession(makeSession('s', { name: 'first' }))
    await store.saveSession(makeSession('s', { name: 'second' }), { ifRevision: revision })
    await store.saveSession(makeSession('s', { name: 'third' }), { ifRevision: revision })
    assert.equal((await store.loadSession('s', { version: -1 })).name, 'first')
    assert.equal(await store.loadSession('s', { version: -2 }), null)
  })

  it('must be a string or null', async () => {
    const store = await open()
    for (const ifRevision of [1, {}, true]) {
      const { code, error } = await store.saveSession(makeSession('s'), { ifRevision })
      assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
      assert.match(error, /options\.ifRevision must be a revision, or null/)
    }
    assert.equal((await store.saveSession(makeSession('s'), 'x')).code, 'WAYMARK_INVALID_ARGUMENT')
    await assert.rejects(store.loadSession('s', { withRevision: 1 }), { code: 'WAYMARK_INVALID_ARGUMENT' })
  })
})

onEveryBackend('createCheckpoint with ifParent', (open) => {
  for (const encoding of ['json', 'gzip', 'zstd', 'delta']) {
    it(`stores a checkpoint after the expected newest one only (${encoding})`, async () => {
      const store = await open()
      const create = (ifParent) => store.createCheckpoint(makeSession('s'), { ...OPTIONS, encoding, ifParent })
      const wrong = await create('cp-1-000000')
      assert.deepEqual([wrong.success, wrong.code, wrong.current], [false, 'WAYMARK_CONFLICT', null])
      const first = await create(null)
      assert.equal(first.success, true, first.error)
      assert.equal((await create(null)).current, first.checkpointId)
      const second = await create(first.checkpointId)
      assert.equal(second.success, true, second.error)
      const late = await create(first.checkpointId)
      assert.deepEqual([late.success, late.code, late.current], [false, 'WAYMARK_CONFLICT', second.checkpointId])
      const third = await create(undefined)
      assert.equal((await create(third.checkpointId)).success, true)
      assert.equal((await store.listCheckpoints('s')).total, 4)
    })
  }

  it('lets one of many concurrent calls succeed', async () => {
    const store = await open()
    let parent = null
    for (let round = 0; round < 3; round += 1) {
      const ifParent = parent
      const results = await Promise.all(
        Array.from({ length: 20 }, () => store.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent })),
      )
      const winners = results.filter(({ success }) => success)
      assert.equal(winners.length, 1)
      parent = winners[0].checkpointId
    }
    assert.equal((await store.listCheckpoints('s')).total, 3)
  })

  it('must be an id or null', async () => {
    const store = await open()
    for (const [ifParent, code] of [
      [1, 'WAYMARK_INVALID_ARGUMENT'],
      ['../x', 'WAYMARK_INVALID_ID'],
    ]) {
      assert.equal((await store.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent })).code, code)
    }
  })
})

describe('preconditions of two stores on one location', () => {
  for (const name of durableBackends) {
    it(`see changes of the other store (${name})`, async () => {
      const location = backends[name]()
      const stores = [await openStore(location), await openStore(location)]
      let { revision } = await stores[0].saveSession(makeSession('s'))
      let parent = null
      for (let round = 0; round < 5; round += 1) {
        const session = makeSession('s', { name: `${round}` })
        const saved = await Promise.all(stores.map((store) => store.saveSession(session, { ifRevision: revision })))
        const created = await Promise.all(
          stores.map((store) => store.createCheckpoint(session, { ...OPTIONS, ifParent: parent })),
        )
        assert.deepEqual(saved.map(({ success }) => success).toSorted(), [false, true])
        assert.deepEqual(created.map(({ success }) => success).toSorted(), [false, true])
        revision = saved.find(({ success }) => success).revision
        parent = created.find(({ success }) => success).checkpointId
        assert.equal(created.find(({ success }) => !success).current, parent)
      }
    })
  }
})

describe('createCheckpoint with ifParent of a foreign name ahead of the clock', () => {
  /** A store whose newest checkpoint has a foreign name and a file time this far ahead. */
  async function withForeign(aheadMs, options) {
    const location = backends.files()
    const store = await openStore(location, options)
    const { path, checkpointId } = await checkpointOf(store, makeSession('s'))
    const foreign = join(location, 's', 'checkpoints', 'zz-foreign.json')
    writeFileSync(foreign, readFileSync(path, 'utf8').replaceAll(checkpointId, 'zz-foreign'))
    const time = new Date(Date.now() + aheadMs)
    utimesSync(foreign, time, time)
    return store
  }

  it('succeeds, and the new checkpoint is the newest', async () => {
    const store = await withForeign(3_600_000)
    let parent = 'zz-foreign'
    for (let step = 0; step < 3; step += 1) {
      const { success, error, checkpointId } = await store.createCheckpoint(makeSession('s'), {
        ...OPTIONS,
        ifParent: parent,
      })
      assert.equal(success, true, error)
      assert.equal((await store.getLatestCheckpoint('s')).id, checkpointId)
      parent = checkpointId
    }
  })

  it('keeps the new checkpoint when retention keeps one', async () => {
    const store = await withForeign(3_600_000, { retention: { keepLast: 1 } })
    const { checkpointId } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, ifParent: 'zz-foreign' })
    assert.deepEqual(
      (await store.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
      [checkpointId],
    )
  })
})

onEveryBackend('a write whose precondition fails', (open) => {
  it('creates no session', async () => {
    const store = await open()
    const options = { ...OPTIONS, ifParent: 'cp-0-000000' }
    assert.equal((await store.createCheckpoint(makeSession('refused'), options)).code, 'WAYMARK_CONFLICT')
    const delta = { ...DELTA, ifParent: 'cp-0-000000' }
    assert.equal((await store.createCheckpoint(makeSession('refused'), delta)).code, 'WAYMARK_CONFLICT')
    const saved = await store.saveSession(makeSession('refused'), { ifRevision: 'other' })
    assert.equal(saved.code, 'WAYMARK_CONFLICT')
    assert.equal((await store.labelCheckpoint('refused', 'cp-0-000000', 'label')).code, 'WAYMARK_NOT_FOUND')
    await assert.rejects(store.prune('refused'), { code: 'WAYMARK_NOT_FOUND' })
  })
})

onSharedBackends('createCheckpoint whose precondition fails', (shared) => {
  it('removes no other checkpoint', async () => {
    const open = shared()
    const [one, other] = [await open(), await open({ maxCheckpointsPerSession: 2 })]
    const created = await createInSequence(one, 4, { options: OPTIONS })
    const refused = await other.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent: null })
    assert.equal(refused.code, 'WAYMARK_CONFLICT')
    await assertAllWhole(one, created)
  })
})
