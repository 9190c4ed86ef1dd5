import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, backends, durableBackends, openStore } from '../support/stores.mjs'

const ROUNDS = 120

for (const name of durableBackends) {
  describe(`a session deleted by another store (${name})`, () => {
    /** Calls `work` repeatedly while another store deletes the session; resolves to the failures. */
    async function besideDeletion(work, options = {}) {
      const location = backends[name]()
      const [worker, deleter] = [await openStore(location, options), await openStore(location)]
      const race = { isDone: false }
      const deletion = (async () => {
        while (!race.isDone) {
          await deleter.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
          const { success, error } = await deleter.deleteSession('s')
          assert.ok(success, error)
        }
      })()
      const failed = []
      try {
        for (let round = 0; round < ROUNDS; round += 1) {
          await work(worker, failed).catch((error) => failed.push(error.message))
        }
      } finally {
        race.isDone = true
      }
      await deletion
      return failed
    }

    it('deleteSessionCheckpoints counts missing checkpoints as deleted', async () => {
      const failed = await besideDeletion(async (store, failures) => {
        for (let count = 0; count < 3; count += 1) {
          const { success, error } = await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
          if (!success) failures.push(error)
        }
        const deleted = await store.deleteSessionCheckpoints('s')
        assert.ok(deleted >= 0)
      })
      assert.deepEqual(failed, [])
    })

    for (const encoding of ['json', 'delta']) {
      it(`createCheckpoint succeeds without warnings, encoding ${encoding}`, async () => {
        const failed = await besideDeletion(
          async (store, failures) => {
            const result = await store.createCheckpoint(makeSession('s'), {}, {}, { trigger: 'manual', encoding })
            if (!result.success) failures.push(result.error)
            failures.push(...(result.warnings ?? []))
          },
          { maxCheckpointsPerSession: 2, durability: 'relaxed' },
        )
        assert.deepEqual(failed, [])
      })
    }

    it('readers return what exists, or nothing', async () => {
      const failed = await besideDeletion(async (store) => {
        await store.listCheckpoints('s')
        await store.getSessionStorageStats('s')
        await store.loadSession('s')
        await store.listAgents('s')
        await store.prune('s').catch((error) => assert.equal(error.code, 'WAYMARK_NOT_FOUND', error.message))
      })
      assert.deepEqual(failed, [])
    })
  })
}
