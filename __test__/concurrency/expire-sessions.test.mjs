import assert from 'node:assert/strict'
import { mkdirSync, rmSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import { backends, checkpointOf, durableBackends, openStore, scratchDirectory } from '../support/stores.mjs'

const ROUNDS = 150

const over = (id, overrides = {}) => makeSession(id, { status: 'paused', expiresAt: 1000, ...overrides })

/** Two stores on one location; in memory there is only one store for a location. */
const pairs = {
  ...Object.fromEntries(
    durableBackends.map((name) => [
      name,
      async (options) => {
        const location = backends[name]()
        return [await openStore(location, options), await openStore(location, options)]
      },
    ]),
  ),
  ...(durableBackends.includes('files') && {
    memory: async (options) => {
      const store = await openStore('memory:', options)
      return [store, store]
    },
  }),
}

for (const [name, openPair] of Object.entries(pairs)) {
  describe(`expireSessions beside a store that resumes the session (${name})`, () => {
    for (const durability of ['full', 'relaxed']) {
      it(`deletes nothing acknowledged after the session became active, durability ${durability}`, async () => {
        const [worker, cleaner] = await openPair({ durability })
        const race = { isDone: false }
        const clean = (async () => {
          let deleted = 0
          while (!race.isDone) deleted += (await cleaner.expireSessions(2000, { action: 'delete' })).length
          return deleted
        })()
        const lost = []
        try {
          for (let round = 0; round < ROUNDS; round += 1) {
            await worker.saveSession(over('s', { name: `${round}` }))
            await checkpointOf(worker, over('s'))
            const saved = await worker.saveSession(makeSession('s', { name: `${round}`, expiresAt: 1000 }))
            assert.equal(saved.success, true, saved.error)
            const { checkpointId } = await checkpointOf(worker, makeSession('s'))
            const agent = await worker.agent('s', 'a').save({ iteration: round })
            const session = await worker.loadSession('s')
            if (session?.name !== `${round}` || session.status !== 'active') lost.push(`session ${round}`)
            if (!(await worker.getCheckpoint('s', checkpointId))) lost.push(`checkpoint ${round}`)
            if (!(await worker.agent('s', 'a').get(agent.checkpointId))) lost.push(`agent ${round}`)
          }
        } finally {
          race.isDone = true
        }
        const deleted = await clean
        assert.deepEqual(lost, [])
        assert.ok(deleted > 0, 'no session was ever deleted')
      })
    }

    it('skips a session whose lease another store holds', async () => {
      const [worker, cleaner] = await openPair()
      if (worker === cleaner) return
      await worker.saveSession(over('s'))
      const lease = await worker.acquireSession('s')
      assert.deepEqual(await cleaner.expireSessions(2000, { action: 'delete' }), [])
      assert.equal((await worker.loadSession('s')).status, 'paused')
      await lease.release()
      assert.equal((await cleaner.expireSessions(2000, { action: 'delete' })).length, 1)
      assert.equal(await worker.loadSession('s'), null)
    })
  })
}

if (durableBackends.includes('files')) {
  describe('expireSessions with a system error for one session', () => {
    for (const [action, done] of [
      ['archive', 'archived'],
      ['delete', 'deleted'],
    ]) {
      it(`rejects with its results and the failure, action ${action}`, async () => {
        const base = scratchDirectory()
        const store = await openStore(base)
        for (const id of ['a', 'b', 'c']) await store.saveSession(over(id))
        // The lock of the session cannot be taken.
        rmSync(join(base, 'b', '.lock'), { force: true })
        mkdirSync(join(base, 'b', '.lock'))
        const error = await store.expireSessions(2000, { action }).then(assert.fail, (thrown) => thrown)
        rmdirSync(join(base, 'b', '.lock'))
        assert.equal(error.code, 'WAYMARK_IO')
        assert.match(error.message, /^1 of 3 sessions could not be (archived|deleted): b: /)
        assert.deepEqual(
          error.expired,
          ['a', 'c'].map((sessionId) => ({ sessionId, status: 'paused', expiresAt: 1000, action: done })),
        )
        assert.deepEqual(
          error.failed.map(({ sessionId, code }) => [sessionId, code]),
          [['b', 'WAYMARK_IO']],
        )
        assert.equal(error.cause.code, 'WAYMARK_IO')
        assert.equal((await store.loadSession('b')).status, 'paused')
      })
    }
  })
}
