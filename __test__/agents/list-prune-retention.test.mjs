import assert from 'node:assert/strict'
import { it } from 'node:test'

import { idsIn, makeState, saved, savedAll } from '../support/agents.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, onEveryBackend } from '../support/stores.mjs'
import { until } from '../support/waiting.mjs'

const INFO_MEMBERS =
  'id timestamp iteration status statusReason label tokensUsed costEstimate expiresAt messageCount toolCallCount sizeBytes'.split(
    ' ',
  )

const iterations = (...numbers) => numbers.map((iteration) => (iteration === undefined ? {} : { iteration }))

/** What `info()` returns for a whole checkpoint. */
function infoOf(checkpoint, encoding) {
  const shown = INFO_MEMBERS.filter((name) => name in checkpoint).map((name) => [name, checkpoint[name]])
  return { ...Object.fromEntries(shown), encoding }
}

/** A checkpoint that has expired. */
async function savedAndExpired(agent, state = {}) {
  const { checkpointId } = await saved(agent, { ...state, ttlMs: 1 })
  const { expiresAt } = await agent.get(checkpointId)
  await until(() => Date.now() > expiresAt)
  return checkpointId
}

onEveryBackend('agent.list and agent.info', (open) => {
  for (const compress of [false, true]) {
    it(`return the same checkpoints with and without payloads, ${compress ? 'compressed' : 'plain'}`, async () => {
      const store = await open()
      const agent = store.agent('s', 'a')
      const states = [
        {},
        makeState({ ttlMs: 3_600_000 }),
        { label: 'l"é🟦', tokensUsed: 0, costEstimate: 1e-7, iteration: 1e21 },
        { status: 'failed', statusReason: 'r"é'.repeat(2000) },
        { status: 'halted', statusReason: 'r'.repeat(70_000), context: new Uint8Array(5000) },
        {
          messages: [null, {}],
          metadata: { messageCount: 9, 'messages": [': '\n  "messages": [' },
          tokensUsed: 2 ** 53,
        },
      ]
      for (const state of states) await saved(agent, state, { compress })
      for (const order of ['newest', 'iteration']) {
        const [whole, info] = [await agent.list({ order }), await agent.info({ order })]
        assert.equal(whole.checkpoints.length, states.length)
        const expected = whole.checkpoints.map((checkpoint) => infoOf(checkpoint, compress ? 'gzip' : 'json'))
        assert.deepEqual(info, { checkpoints: expected, total: states.length, damaged: [] })
      }
    })
  }

  it('order by newest or by iteration, with checkpoints without an iteration first', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const made = await savedAll(agent, iterations(5, 1, 3, 10, 1, undefined, 1e21, 0))
    const byIteration = [5, 7, 1, 4, 2, 0, 3, 6].map((index) => made[index])
    for (const method of ['list', 'info']) {
      assert.deepEqual(idsIn(await agent[method]()), made.toReversed())
      assert.deepEqual(idsIn(await agent[method]({ order: 'newest' })), made.toReversed())
      assert.deepEqual(idsIn(await agent[method]({ order: 'iteration' })), byIteration)
      for (const limit of [0, 8, 100, Infinity, undefined]) {
        const page = await agent[method]({ order: 'iteration', limit })
        assert.deepEqual(idsIn(page), byIteration)
        assert.equal('cursor' in page, false)
      }
    }
  })

  for (const method of ['list', 'info']) {
    for (const order of ['newest', 'iteration']) {
      it(`page through all checkpoints at any page size: ${method}, ${order}`, async () => {
        const store = await open()
        const agent = store.agent('s', 'a')
        await savedAll(agent, iterations(5, 1, 3, 1, 1e21, undefined, 2))
        const all = idsIn(await agent[method]({ order }))
        for (const limit of [1, 2, 3, 6, 7]) {
          const seen = []
          let cursor
          do {
            const page = await agent[method]({ order, limit, cursor })
            assert.equal(page.total, 7)
            assert.ok(page.checkpoints.length > 0 && page.checkpoints.length <= limit)
            seen.push(...idsIn(page))
            cursor = page.cursor
          } while (cursor !== undefined)
          assert.deepEqual(seen, all)
        }
      })
    }

    it(`page correctly while checkpoints are created and deleted: ${method}`, async () => {
      const store = await open()
      for (const order of ['newest', 'iteration']) {
        const agent = store.agent('s', order)
        const made = (await savedAll(agent, iterations(7, 6, 5, 4, 3, 2, 1))).toReversed()
        const first = await agent[method]({ order, limit: 3 })
        assert.deepEqual(idsIn(first), made.slice(0, 3))
        // Delete the checkpoint of the cursor and a later one, and create some at both ends.
        await agent.delete(made[2])
        await agent.delete(made[4])
        const [, last] = await savedAll(agent, iterations(0, 100))
        const second = await agent[method]({ order, limit: 2, cursor: first.cursor })
        assert.deepEqual(idsIn(second), [made[3], made[5]])
        const third = await agent[method]({ order, limit: 2, cursor: second.cursor })
        assert.deepEqual(idsIn(third), order === 'newest' ? [made[6]] : [made[6], last])
        assert.equal('cursor' in third, false)
      }
    })
  }
})

onEveryBackend('the checkpoints of an agent', (open) => {
  it('prune keeps the newest, whatever their iteration and encoding, and counts the removed ones', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const made = []
    for (const iteration of [9, 1, 8, 2, 7]) {
      made.unshift((await saved(agent, { iteration }, { compress: iteration % 2 === 0 })).checkpointId)
    }
    assert.equal(await agent.prune(Infinity), 0)
    assert.equal(await agent.prune(5), 0)
    assert.equal(await agent.prune(3), 2)
    assert.deepEqual(idsIn(await agent.list()), made.slice(0, 3))
    assert.equal(await agent.prune(0), 3)
    assert.deepEqual([await agent.has(), await agent.prune(0)], [false, 0])
  })

  it('clear and delete remove what was asked for; an agent without checkpoints is no longer listed', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const [first, second, third] = await savedAll(agent, iterations(1, 2, 3))
    assert.deepEqual(await agent.delete(second), { success: true })
    assert.deepEqual(idsIn(await agent.list()), [third, first])
    assert.equal(await agent.get(second), null)
    assert.deepEqual(await store.listAgents('s'), ['a'])
    assert.equal(await agent.clear(), 2)
    assert.deepEqual([await agent.clear(), await agent.latest(), await agent.has()], [0, null, false])
    assert.deepEqual(await store.listAgents('s'), [])
    const [again] = await savedAll(agent, iterations(4))
    assert.deepEqual(idsIn(await agent.list()), [again])
  })

  it('are independent of other agents and of the checkpoints of the session', async () => {
    const store = await open({ maxCheckpointsPerSession: 3, maxCheckpointsPerAgent: 4 })
    const agents = [store.agent('s', 'a'), store.agent('s', 'b'), store.agent('t', 'a')]
    for (const agent of agents) await savedAll(agent, iterations(1, 2, 3, 4, 5, 6))
    for (const id of ['s', 's', 's', 's', 't']) await checkpointOf(store, makeSession(id))
    const totals = async () => {
      const ofAgents = await Promise.all(agents.map((agent) => agent.info()))
      const ofSessions = await Promise.all(['s', 't'].map((id) => store.listCheckpointInfo(id)))
      return [...ofAgents, ...ofSessions].map(({ total }) => total)
    }
    assert.deepEqual(await totals(), [4, 4, 4, 3, 1])
    assert.equal(await agents[0].prune(1), 3)
    assert.deepEqual(await totals(), [1, 4, 4, 3, 1])
    assert.equal(await agents[0].clear(), 1)
    assert.deepEqual(await totals(), [0, 4, 4, 3, 1])
    assert.equal(await store.deleteSessionCheckpoints('s'), 3)
    assert.deepEqual(await totals(), [0, 4, 4, 0, 1])
    assert.equal((await store.deleteSession('t')).success, true)
    assert.deepEqual(await totals(), [0, 4, 0, 0, 0])
    assert.deepEqual([await store.listAgents('s'), await store.listAgents('t')], [['b'], []])
    assert.equal(await agents[2].latest(), null)
  })

  it('retention keeps the newest of each agent, 100 by default', async () => {
    const store = await open({ maxCheckpointsPerAgent: 2, maxCheckpointsPerSession: 1 })
    const agent = store.agent('s', 'a')
    const made = []
    for (let iteration = 9; iteration > 0; iteration -= 1) {
      made.unshift((await saved(agent, { iteration }, { compress: iteration % 2 === 0 })).checkpointId)
      assert.deepEqual(idsIn(await agent.info()), made.slice(0, 2))
    }
    const usual = (await open()).agent('s', 'a')
    await Promise.all(Array.from({ length: 105 }, (_, iteration) => saved(usual, { iteration })))
    const { checkpoints, total } = await usual.info()
    assert.deepEqual([total, checkpoints[0].iteration, checkpoints.at(-1).iteration], [100, 104, 5])
    const all = (await open({ maxCheckpointsPerAgent: Infinity })).agent('s', 'a')
    await Promise.all(Array.from({ length: 105 }, (_, iteration) => saved(all, { iteration })))
    assert.equal((await all.info()).total, 105)
  })

  it('are not listed as checkpoints of the session', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const [id] = await savedAll(agent, [makeState()])
    assert.equal(await store.getCheckpoint('s', id), null)
    assert.equal(await store.getLatestCheckpoint('s'), null)
    assert.equal((await store.listCheckpoints('s')).total, 0)
    assert.equal((await store.restoreCheckpoint({ checkpointId: id })).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.restoreCheckpoint('s', id)).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.recoverSession('s')).code, 'WAYMARK_NOT_FOUND')
    await assert.rejects(store.verifyCheckpoint('s', id), { code: 'WAYMARK_NOT_FOUND' })
    assert.deepEqual(await store.deleteCheckpoint('s', id), { success: true })
    assert.equal(await agent.has(), true)
    const { checkpointId: ofSession } = await checkpointOf(store, makeSession('s'))
    assert.equal(await agent.get(ofSession), null)
    const { checkpointCount, totalSizeBytes } = await store.getSessionStorageStats('s')
    assert.equal(checkpointCount, 1)
    assert.ok(totalSizeBytes > (await agent.latest()).sizeBytes)
    assert.equal((await store.sessionsInfo())[0].agentCheckpointCount, 1)
  })

  it('agent.verify reports each one, and verifySession those of all agents', async () => {
    const store = await open()
    const [first, second] = [await saved(store.agent('s', 'a'), makeState()), await saved(store.agent('s', 'a'), {})]
    const other = await saved(store.agent('s', 'b'), makeState({ context: new Uint8Array(9) }), { compress: true })
    const verdict = ({ checkpointId, path, sizeBytes }) => ({ id: checkpointId, path, sizeBytes, whole: true })
    assert.deepEqual(await store.agent('s', 'a').verify(first.checkpointId), verdict(first))
    assert.deepEqual(await store.verifySession('s'), {
      sessionId: 's',
      whole: true,
      checkpoints: [],
      agentCheckpoints: [
        { ...verdict(second), agentId: 'a' },
        { ...verdict(first), agentId: 'a' },
        { ...verdict(other), agentId: 'b' },
      ],
      files: [],
    })
  })
})

onEveryBackend('expired agent checkpoints', (open) => {
  it('are skipped by latest, list, info and has, but returned by id', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const [older] = await savedAll(agent, [{ iteration: 1, ttlMs: 3_600_000 }])
    const expired = await savedAndExpired(agent, { iteration: 2 })
    assert.equal((await agent.latest()).id, older)
    for (const order of ['newest', 'iteration']) {
      for (const page of [await agent.list({ order }), await agent.info({ order })]) {
        assert.deepEqual([idsIn(page), page.total], [[older], 1])
      }
    }
    const { id, timestamp, expiresAt, ttlMs } = await agent.get(expired)
    assert.deepEqual([id, expiresAt, ttlMs], [expired, timestamp + 1, 1])
    assert.equal((await agent.verify(expired)).whole, true)
    assert.equal((await store.verifySession('s')).agentCheckpoints.length, 2)
    assert.equal(await agent.has(), true)
    await agent.delete(older)
    assert.deepEqual([await agent.has(), await agent.latest(), (await agent.list()).total], [false, null, 0])
  })

  it('are removed and counted by prune, and do not count towards its limit', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const made = await savedAll(agent, iterations(1, 2, 3))
    const expired = [await savedAndExpired(agent), await savedAndExpired(agent)]
    made.push(...(await savedAll(agent, iterations(4))))
    assert.equal(await agent.prune(3), 3)
    assert.deepEqual(idsIn(await agent.list()), made.slice(1).toReversed())
    for (const id of expired) assert.equal(await agent.get(id), null)
    await savedAndExpired(agent)
    assert.equal(await agent.prune(Infinity), 1)
  })

  it('are readable again after they are saved again', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    const state = await agent.get(await savedAndExpired(agent, { iteration: 4 }))
    const [id] = await savedAll(agent, [{ ...state, ttlMs: undefined }])
    const latest = await agent.latest()
    assert.deepEqual([latest.id, latest.iteration, 'expiresAt' in latest], [id, 4, false])
  })
})

onEveryBackend('agents that save concurrently', (open) => {
  it('lose nothing to a prune in progress', async () => {
    const store = await open({ maxCheckpointsPerAgent: Infinity, durability: 'relaxed' })
    const agent = store.agent('s', 'a')
    const saves = []
    const prunes = []
    for (let iteration = 0; iteration < 100; iteration += 1) {
      saves.push(agent.save({ iteration, statusReason: 'long '.repeat(1000) }))
      prunes.push(agent.prune(1000))
    }
    const gone = await Promise.all(prunes)
    const made = (await Promise.all(saves)).map(({ checkpointId }) => checkpointId)
    assert.deepEqual(idsIn(await agent.info()), made.toReversed())
    assert.ok(gone.every((count) => count === 0))
  })

  it('always have a newest checkpoint, even while retention removes listed ones', async () => {
    const store = await open({ maxCheckpointsPerAgent: 1, durability: 'relaxed' })
    const agent = store.agent('s', 'a')
    await saved(agent, {})
    const seen = { latest: 0, has: 0, list: 0 }
    for (let round = 0; round < 60; round += 1) {
      const calls = Array.from({ length: 10 }, async (_, iteration) => {
        const [, latest, has, list] = await Promise.all([
          saved(agent, { iteration }),
          agent.latest(),
          agent.has(),
          agent.list(),
        ])
        if (latest === null) seen.latest += 1
        if (!has) seen.has += 1
        if (list.total === 0) seen.list += 1
      })
      await Promise.all(calls)
    }
    assert.deepEqual(seen, { latest: 0, has: 0, list: 0 })
  })
})
