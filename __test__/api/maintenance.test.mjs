// Conversions, copies and labels that meet each other, or an interruption: nothing that was acknowledged may be lost.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { DELTA, assertWhole, grown, madeInTurn } from '../support/deltas.mjs'
import { HOUR, forge } from '../support/forged.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, durablePlaces, onEveryBackend, openStore, places } from '../support/stores.mjs'

const idsOf = async (store, session = 's') =>
  (await store.listCheckpointInfo(session, { limit: 0 })).checkpoints.map(({ id }) => id)

/** Stops a conversion after so many checkpoints. */
async function abortedConversion(store, encoding, after) {
  const controller = new AbortController()
  const onProgress = ({ done }) => done >= after && controller.abort()
  await store.convert('s', encoding, { signal: controller.signal, onProgress }).catch((error) => {
    assert.equal(error.name, 'AbortError')
  })
}

/** Everything that was created is there, once, and whole. */
async function assertAll(store, created) {
  assert.deepEqual((await idsOf(store)).toSorted(), created.map(({ checkpointId }) => checkpointId).toSorted())
  await assertWhole(store)
}

/** Runs the same on every backend that several stores can share: `suite(open)`, where each `open()` is another store on it. */
function onSharedBackends(title, suite) {
  for (const name of durablePlaces) {
    describe(`${title} (${name})`, () =>
      suite(() => {
        const location = places[name]()
        return (options) => openStore(location, options)
      }))
  }
}

onEveryBackend('convert, interrupted', (open) => {
  for (const after of [1, 4, 9, 17]) {
    it(`to zstd after ${after} checkpoints and then to delta, leaves every checkpoint readable`, async () => {
      const store = await open()
      const created = await madeInTurn(store, 30)
      await abortedConversion(store, 'zstd', after)
      await store.convert('s', 'delta')
      await assertAll(store, created)
      await abortedConversion(store, 'json', after)
      await store.convert('s', 'delta')
      await madeInTurn(store, 3, { first: 30 })
      await assertWhole(store)
    })
  }
})

onSharedBackends('convert in several stores at once', (shared) => {
  it('to delta, leaves every checkpoint readable', async () => {
    const open = shared()
    const stores = [await open(), await open()]
    for (let round = 0; round < 5; round += 1) {
      await stores[0].deleteSession('s')
      const created = await madeInTurn(stores[0], 12, { options: OPTIONS })
      await Promise.all(stores.map((store) => store.convert('s', 'delta')))
      await assertAll(await open(), created)
    }
  })

  it('to three encodings, stores every checkpoint once', async () => {
    const open = shared()
    const stores = [await open(), await open(), await open()]
    const created = await madeInTurn(stores[0], 12, { options: OPTIONS })
    for (let round = 0; round < 3; round += 1) {
      const encodings = ['gzip', 'zstd', 'delta']
      await Promise.all(stores.map((store, at) => store.convert('s', encodings[(at + round) % 3])))
      await assertAll(await open(), created)
    }
    const pruned = await stores[0].prune('s', { retention: { keepLast: 10 } })
    assert.equal(pruned.removed.length, 2)
    assert.equal((await idsOf(stores[1])).length, 10)
  })

  it('does not bring back a checkpoint that is deleted meanwhile', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const created = await madeInTurn(one, 20, { options: OPTIONS })
    const conversion = one.convert('s', 'zstd')
    for (const { checkpointId } of created) await other.deleteCheckpoint('s', checkpointId)
    await conversion
    assert.deepEqual(await idsOf(other), [])
  })

  it('hides no checkpoint from readers', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const created = await madeInTurn(one, 6, { options: OPTIONS })
    const newest = created.at(-1).checkpointId
    await one.labelCheckpoint('s', newest, 'newest')
    const progress = { isDone: false }
    const conversions = (async () => {
      for (const encoding of ['zstd', 'json', 'delta', 'gzip', 'delta', 'json']) await one.convert('s', encoding)
      progress.isDone = true
    })()
    while (!progress.isDone) {
      assert.equal((await other.getLatestCheckpoint('s'))?.id, newest)
      assert.equal((await idsOf(other)).length, created.length)
      assert.equal((await other.getCheckpoint('s', created[0].checkpointId))?.id, created[0].checkpointId)
      assert.equal((await other.recoverSession('s')).checkpointId, newest)
      assert.equal((await other.restoreCheckpoint('s', newest)).success, true)
      assert.equal((await other.verifyCheckpoint('s', newest)).whole, true)
      assert.equal((await other.getCheckpointByLabel('s', 'newest'))?.id, newest)
      await other.diffCheckpoints(`s/${created[0].checkpointId}`, `s/${newest}`)
    }
    await conversions
  })
})

onEveryBackend('copyTo a store that has gone its own way', (open) => {
  for (const encoding of ['zstd', 'json']) {
    it(`keeps its checkpoints readable after both went through ${encoding}`, async () => {
      const [source, target] = [await open(), await open()]
      await madeInTurn(source, 5)
      await source.copyTo(target)
      for (const store of [source, target]) {
        await store.convert('s', encoding)
        await store.convert('s', 'delta')
      }
      await madeInTurn(source, 5, { first: 10 })
      await madeInTurn(target, 5, { first: 20 })
      await source.copyTo(target)
      assert.equal((await assertWhole(target)).length, 15)
      await target.copyTo(source)
      assert.equal((await assertWhole(source)).length, 15)
    })
  }

  it('stores a checkpoint once, whatever encodings both have', async () => {
    const [source, target] = [await open(), await open()]
    const created = await madeInTurn(source, 3, { options: OPTIONS })
    await source.copyTo(target)
    for (const encoding of ['gzip', 'delta', 'zstd', 'json']) {
      await source.convert('s', encoding)
      await source.copyTo(target)
      await assertAll(target, created)
    }
  })

  it('keeps the labels of checkpoints that only it has', async () => {
    const [source, target] = [await open(), await open()]
    const [shared] = await madeInTurn(source, 1)
    await source.labelCheckpoint('s', shared.checkpointId, 'shared')
    await source.copyTo(target)
    const [own] = await madeInTurn(target, 1, { first: 1 })
    await target.labelCheckpoint('s', own.checkpointId, 'own')
    await source.labelCheckpoint('s', shared.checkpointId, 'changed')
    await source.copyTo(target)
    const { checkpoints } = await target.listCheckpointInfo('s')
    assert.deepEqual(
      checkpoints.map(({ label }) => label),
      ['own', 'changed'],
    )
  })
})

onSharedBackends('labels from several stores', (shared) => {
  it('are all kept', async () => {
    const open = shared()
    const stores = [await open(), await open(), await open()]
    const labels = await Promise.all(
      Array.from({ length: 24 }, async (_, number) => {
        const store = stores[number % 3]
        const { checkpointId } = await checkpointOf(store, makeSession('s', { name: `${number}` }))
        const given = await store.labelCheckpoint('s', checkpointId, `label ${number}`)
        assert.equal(given.success, true)
        return [checkpointId, `label ${number}`]
      }),
    )
    const { checkpoints } = await stores[0].listCheckpointInfo('s', { limit: 0 })
    assert.deepEqual(Object.fromEntries(checkpoints.map(({ id, label }) => [id, label])), Object.fromEntries(labels))
  })

  it('are given once if they must be unique, to checkpoints that exist and to new ones', async () => {
    const open = shared()
    const stores = [await open(), await open()]
    const made = await madeInTurn(stores[0], 2, { options: OPTIONS })
    for (let round = 0; round < 6; round += 1) {
      const label = `release ${round}`
      const options = { ...OPTIONS, label, uniqueLabel: true }
      const given = await Promise.all([
        ...stores.map((store, at) => store.labelCheckpoint('s', made[at].checkpointId, label, { unique: true })),
        ...stores.map((store) => store.createCheckpoint(grown(round), options)),
      ])
      assert.equal(given.filter(({ success }) => success).length, 1)
      for (const { success, code } of given) if (!success) assert.equal(code, 'WAYMARK_EXISTS')
      const { checkpoints } = await stores[0].listCheckpointInfo('s', { label, limit: 0 })
      assert.equal(checkpoints.length, 1)
    }
    const created = (await idsOf(stores[0])).length - made.length
    assert.ok(created <= 6, 'a checkpoint whose label is refused does not stay')
  })

  for (const limit of [1, 3]) {
    it(`that are refused cost no other checkpoint, with a limit of ${limit}`, async () => {
      const open = shared()
      const options = { maxCheckpointsPerSession: limit }
      const stores = [await open(options), await open(options), await open(options)]
      for (let round = 0; round < 8; round += 1) {
        await stores[0].deleteSession('s')
        await madeInTurn(stores[0], limit, { options: OPTIONS })
        const given = await Promise.all(
          stores.map((store) => store.createCheckpoint(grown(9), { ...OPTIONS, label: 'release', uniqueLabel: true })),
        )
        const winners = given.filter(({ success }) => success)
        assert.deepEqual(new Set(given.map(({ code }) => code)), new Set([undefined, 'WAYMARK_EXISTS']))
        assert.equal(winners.length, 1)
        const ids = await idsOf(stores[1])
        assert.equal(ids.length, limit)
        assert.equal(ids[0], winners[0].checkpointId)
      }
    })
  }

  it('keep checkpoints from retention from the moment they are acknowledged', async () => {
    const open = shared()
    const [writer, labeller] = [await open({ retention: { keepLast: 2 } }), await open()]
    const labelled = []
    await madeInTurn(writer, 3, { options: OPTIONS })
    for (let number = 0; number < 20; number += 1) {
      const oldest = (await idsOf(labeller)).findLast((id) => !labelled.includes(id))
      const [, given] = await Promise.all([
        checkpointOf(writer, grown(number)),
        labeller.labelCheckpoint('s', oldest, `kept ${number}`),
      ])
      if (given.success) labelled.push(oldest)
    }
    const ids = await idsOf(labeller)
    assert.deepEqual(
      labelled.filter((id) => !ids.includes(id)),
      [],
    )
  })
})

onEveryBackend('a label', (open) => {
  it('goes with its checkpoint', async () => {
    const store = await open()
    const [made, other] = await madeInTurn(store, 2, { options: OPTIONS })
    await store.labelCheckpoint('s', made.checkpointId, 'gone')
    await store.labelCheckpoint('s', other.checkpointId, 'stays')
    await store.deleteCheckpoint('s', made.checkpointId)
    assert.equal((await store.labelCheckpoint('s', other.checkpointId, 'gone', { unique: true })).success, true)
    assert.equal((await store.labelCheckpoint('s', made.checkpointId, 'again')).code, 'WAYMARK_NOT_FOUND')
  })
})

onEveryBackend('a write that is refused', (open) => {
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

onSharedBackends('a checkpoint that is refused', (shared) => {
  it('removes no other', async () => {
    const open = shared()
    const [one, other] = [await open(), await open({ maxCheckpointsPerSession: 2 })]
    const created = await madeInTurn(one, 4, { options: OPTIONS })
    const refused = await other.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent: null })
    assert.equal(refused.code, 'WAYMARK_CONFLICT')
    await assertAll(one, created)
  })
})

onSharedBackends('stores that take turns', (shared) => {
  it('find the checkpoint that was acknowledged last as the newest', async () => {
    const open = shared()
    const stores = [await open(), await open(), await open()]
    for (let turn = 0; turn < 60; turn += 1) {
      const made = await checkpointOf(stores[turn % 3], makeSession('s', { name: `${turn}` }))
      for (const store of stores) assert.equal((await store.getLatestCheckpoint('s')).id, made.checkpointId)
      const saved = await stores[turn % 3].agent('s', 'a').save({ iteration: turn })
      assert.equal((await stores[(turn + 1) % 3].agent('s', 'a').latest()).id, saved.checkpointId)
    }
  })

  it('stay close to a checkpoint from a clock that is ahead, in that session alone', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const ahead = Date.now() + 2 * HOUR
    await forge(one, [{ time: ahead }])
    const timeOf = ({ checkpointId }) => Number.parseInt(checkpointId.split('-')[1], 36)
    for (let turn = 0; turn < 6; turn += 1) {
      const store = turn % 2 === 0 ? one : other
      const made = await checkpointOf(store, makeSession('s'))
      assert.equal((await other.getLatestCheckpoint('s')).id, made.checkpointId)
      assert.ok(timeOf(made) >= ahead && timeOf(made) < ahead + 1000, 'its id comes right after that checkpoint')
      assert.ok((await other.getLatestCheckpoint('s')).timestamp < ahead, 'its time is that of the clock')
      assert.ok(timeOf(await checkpointOf(store, makeSession('elsewhere'))) < ahead)
    }
  })
})

onEveryBackend('calls of one store', (open) => {
  it('are ordered as they were made, however many are under way', async () => {
    const store = await open({ maxCheckpointsPerSession: 200 })
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, number) => checkpointOf(store, makeSession('s', { name: `${number}` }))),
    )
    assert.deepEqual(
      (await idsOf(store)).toReversed(),
      made.map(({ checkpointId }) => checkpointId),
    )
  })
})
