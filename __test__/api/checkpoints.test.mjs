import assert from 'node:assert/strict'
import { it } from 'node:test'

import { newCheckpointIds, onEveryBackend } from '../support/stores.mjs'

onEveryBackend('checkpoints()', (open) => {
  it('yields each checkpoint once, newest first, while others are created and deleted', async () => {
    const store = await open()
    const made = await newCheckpointIds(store, 5)
    const seen = []
    for await (const checkpoint of store.checkpoints('s')) {
      if (seen.length === 0) {
        await store.deleteCheckpoint('s', made[2])
        await newCheckpointIds(store, 2)
      }
      assert.deepEqual(checkpoint, await store.getCheckpoint('s', checkpoint.id))
      seen.push(checkpoint.id)
    }
    assert.deepEqual(seen, [made[0], made[1], made[3], made[4]])
  })

  it('can be filtered, left early and called again after its end', async () => {
    const store = await open()
    const [labelled] = await newCheckpointIds(store, 1, { label: 'x' })
    await newCheckpointIds(store, 3)
    const found = []
    for await (const { id } of store.checkpoints('s', { label: 'x' })) found.push(id)
    assert.deepEqual(found, [labelled])

    const walk = store.checkpoints('s')
    for await (const { id } of walk) {
      assert.ok(id)
      break
    }
    assert.deepEqual(await walk.next(), { done: true, value: undefined })
    assert.equal(walk[Symbol.asyncIterator](), walk)

    const empty = store.checkpoints('unknown')
    for (const _ of [1, 2]) assert.deepEqual(await empty.next(), { done: true, value: undefined })
  })

  it('answers concurrent next() calls in call order', async () => {
    const store = await open()
    const made = await newCheckpointIds(store, 12)
    const walk = store.checkpoints('s')
    const steps = await Promise.all(Array.from({ length: 14 }, () => walk.next()))
    assert.deepEqual(
      steps.map(({ value }) => value?.id),
      [...made, undefined, undefined],
    )
  })

  it('rejects its first step for invalid arguments or a closed store, and never throws', async () => {
    const store = await open()
    for (const [session, options] of [['../up'], ['s', { trigger: 'x' }], ['s', { skipDamaged: 1 }], ['s', 7], []]) {
      const walk = store.checkpoints(session, options)
      await assert.rejects(walk.next(), ({ code }) => /^WAYMARK_INVALID_(ARGUMENT|ID)$/.test(code))
      assert.equal((await walk.next()).done, true)
    }
    await newCheckpointIds(store, 1)
    const walk = store.checkpoints('s')
    await store.close()
    await assert.rejects(walk.next(), { code: 'WAYMARK_CLOSED' })
  })
})
