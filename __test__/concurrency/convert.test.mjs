import assert from 'node:assert/strict'
import { it } from 'node:test'

import { assertAllWhole, createInSequence } from '../support/deltas.mjs'
import { OPTIONS, checkpointIdsOf, onSharedBackends } from '../support/stores.mjs'

onSharedBackends('convert in several stores at once', (shared) => {
  it('to delta keeps every checkpoint readable', async () => {
    const open = shared()
    const stores = [await open(), await open()]
    for (let round = 0; round < 5; round += 1) {
      await stores[0].deleteSession('s')
      const created = await createInSequence(stores[0], 12, { options: OPTIONS })
      await Promise.all(stores.map((store) => store.convert('s', 'delta')))
      await assertAllWhole(await open(), created)
    }
  })

  it('to three encodings stores every checkpoint once', async () => {
    const open = shared()
    const stores = [await open(), await open(), await open()]
    const created = await createInSequence(stores[0], 12, { options: OPTIONS })
    for (let round = 0; round < 3; round += 1) {
      const encodings = ['gzip', 'zstd', 'delta']
      await Promise.all(stores.map((store, at) => store.convert('s', encodings[(at + round) % 3])))
      await assertAllWhole(await open(), created)
    }
    const pruned = await stores[0].prune('s', { retention: { keepLast: 10 } })
    assert.equal(pruned.removed.length, 2)
    assert.equal((await checkpointIdsOf(stores[1])).length, 10)
  })

  it('does not restore a checkpoint that is deleted meanwhile', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const created = await createInSequence(one, 20, { options: OPTIONS })
    const conversion = one.convert('s', 'zstd')
    for (const { checkpointId } of created) await other.deleteCheckpoint('s', checkpointId)
    await conversion
    assert.deepEqual(await checkpointIdsOf(other), [])
  })

  it('hides no checkpoint from readers', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const created = await createInSequence(one, 6, { options: OPTIONS })
    const newest = created.at(-1).checkpointId
    await one.labelCheckpoint('s', newest, 'newest')
    const progress = { isDone: false }
    const conversions = (async () => {
      for (const encoding of ['zstd', 'json', 'delta', 'gzip', 'delta', 'json']) await one.convert('s', encoding)
      progress.isDone = true
    })()
    while (!progress.isDone) {
      assert.equal((await other.getLatestCheckpoint('s'))?.id, newest)
      assert.equal((await checkpointIdsOf(other)).length, created.length)
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
