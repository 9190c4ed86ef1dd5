import assert from 'node:assert/strict'
import { it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend } from '../support/stores.mjs'

onEveryBackend('deleteCheckpoint', (open) => {
  it('succeeds for a checkpoint that does not exist, and getCheckpoint returns null', async () => {
    const store = await open()
    assert.equal(await store.getCheckpoint('s', 'cp-none'), null)
    assert.equal(await store.getLatestCheckpoint('s'), null)
    assert.deepEqual(await store.listCheckpoints('s'), { checkpoints: [], total: 0, damaged: [] })
    assert.deepEqual(await store.deleteCheckpoint('s', 'cp-none'), { success: true })
  })

  it('deletes one checkpoint, compressed or not', async () => {
    const store = await open()
    for (const compress of [true, false]) {
      const doomed = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
      const kept = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
      assert.deepEqual(await store.deleteCheckpoint('s', doomed.checkpointId), { success: true })
      assert.equal(await store.getCheckpoint('s', doomed.checkpointId), null)
      assert.ok(await store.getCheckpoint('s', kept.checkpointId))
    }
    assert.equal((await store.listCheckpoints('s')).total, 2)
  })
})
