// Several stores on one location that write in turn.

import assert from 'node:assert/strict'
import { it } from 'node:test'

import { HOUR, createCheckpointsAt } from '../support/past-checkpoints.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, onSharedBackends } from '../support/stores.mjs'

onSharedBackends('stores that write in turn', (shared) => {
  it('find the last acknowledged checkpoint as the newest', async () => {
    const open = shared()
    const stores = [await open(), await open(), await open()]
    for (let turn = 0; turn < 60; turn += 1) {
      const made = await checkpointOf(stores[turn % 3], makeSession('s', { name: `${turn}` }))
      for (const store of stores) assert.equal((await store.getLatestCheckpoint('s')).id, made.checkpointId)
      const saved = await stores[turn % 3].agent('s', 'a').save({ iteration: turn })
      assert.equal((await stores[(turn + 1) % 3].agent('s', 'a').latest()).id, saved.checkpointId)
    }
  })

  it('follow a checkpoint from a clock ahead closely, in that session alone', async () => {
    const open = shared()
    const [one, other] = [await open(), await open()]
    const ahead = Date.now() + 2 * HOUR
    await createCheckpointsAt(one, [{ time: ahead }])
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
