import assert from 'node:assert/strict'
import { it } from 'node:test'

import { createInSequence, growingSession } from '../support/deltas.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointIdsOf, checkpointOf, onSharedBackends } from '../support/stores.mjs'

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

  it('that are unique are set once, on existing and on new checkpoints', async () => {
    const open = shared()
    const stores = [await open(), await open()]
    const made = await createInSequence(stores[0], 2, { options: OPTIONS })
    for (let round = 0; round < 6; round += 1) {
      const label = `release ${round}`
      const options = { ...OPTIONS, label, uniqueLabel: true }
      const given = await Promise.all([
        ...stores.map((store, at) => store.labelCheckpoint('s', made[at].checkpointId, label, { unique: true })),
        ...stores.map((store) => store.createCheckpoint(growingSession(round), options)),
      ])
      assert.equal(given.filter(({ success }) => success).length, 1)
      for (const { success, code } of given) if (!success) assert.equal(code, 'WAYMARK_EXISTS')
      const { checkpoints } = await stores[0].listCheckpointInfo('s', { label, limit: 0 })
      assert.equal(checkpoints.length, 1)
    }
    const created = (await checkpointIdsOf(stores[0])).length - made.length
    assert.ok(created <= 6, 'a checkpoint whose label is refused does not stay')
  })

  for (const limit of [1, 3]) {
    it(`that are rejected remove no other checkpoint, with a limit of ${limit}`, async () => {
      const open = shared()
      const options = { maxCheckpointsPerSession: limit }
      const stores = [await open(options), await open(options), await open(options)]
      for (let round = 0; round < 8; round += 1) {
        await stores[0].deleteSession('s')
        await createInSequence(stores[0], limit, { options: OPTIONS })
        const given = await Promise.all(
          stores.map((store) =>
            store.createCheckpoint(growingSession(9), { ...OPTIONS, label: 'release', uniqueLabel: true }),
          ),
        )
        const winners = given.filter(({ success }) => success)
        assert.deepEqual(new Set(given.map(({ code }) => code)), new Set([undefined, 'WAYMARK_EXISTS']))
        assert.equal(winners.length, 1)
        const ids = await checkpointIdsOf(stores[1])
        assert.equal(ids.length, limit)
        assert.equal(ids[0], winners[0].checkpointId)
      }
    })
  }

  it('protect checkpoints from retention once they are acknowledged', async () => {
    const open = shared()
    const [writer, labeller] = [await open({ retention: { keepLast: 2 } }), await open()]
    const labelled = []
    await createInSequence(writer, 3, { options: OPTIONS })
    for (let number = 0; number < 20; number += 1) {
      const oldest = (await checkpointIdsOf(labeller)).findLast((id) => !labelled.includes(id))
      const [, given] = await Promise.all([
        checkpointOf(writer, growingSession(number)),
        labeller.labelCheckpoint('s', oldest, `kept ${number}`),
      ])
      if (given.success) labelled.push(oldest)
    }
    const ids = await checkpointIdsOf(labeller)
    assert.deepEqual(
      labelled.filter((id) => !ids.includes(id)),
      [],
    )
  })
})
