import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'

import { idsIn, saved, savedAll, stateIn } from '../support/agents.mjs'
import { onEveryBackend, openStore } from '../support/stores.mjs'

onEveryBackend('an agent that saves while others work on its checkpoints', (open) => {
  it('loses nothing to a prune that was under way, however much is to be kept', async () => {
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

  it('is never without a checkpoint because retention removed those that were listed', async () => {
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

onEveryBackend('an agent', (open) => {
  it('does not take a null for a wish to remove everything', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await savedAll(agent, [{}, {}])
    await assert.rejects(agent.prune(null), {
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'keep must be a whole number, 0 or more; got null',
    })
    assert.equal((await agent.info()).total, 2)
  })

  for (const [kind, state] of Object.entries({
    'a Map': new Map([
      ['iteration', 'x'],
      ['messages', 'hello'],
      ['context', new Uint8Array([1])],
    ]),
    'a Set': new Set([{ role: 'user', content: 'hello' }]),
  })) {
    it(`refuses ${kind} as its state, instead of storing half of it unchecked`, async () => {
      const store = await open()
      const result = await store.agent('s', 'a').save(state)
      assert.deepEqual(
        [result.code, result.error],
        ['WAYMARK_INVALID_ARGUMENT', `state must be an object; got ${kind}`],
      )
      assert.equal(await store.agent('s', 'a').has(), false)
    })
  }

  for (const compress of [false, true]) {
    for (const made of ['text', null, { a: 1 }]) {
      const kind = `${JSON.stringify(made)}, ${compress ? 'compressed' : 'plain'}`

      it(`refuses a list that turns itself into something else: ${kind}`, async () => {
        const store = await open()
        for (const name of ['messages', 'toolCalls']) {
          const list = Object.assign([1], { toJSON: () => made })
          const result = await store.agent('s', 'a').save({ [name]: list }, { compress })
          assert.deepEqual([result.success, result.code], [false, 'WAYMARK_NOT_SERIALIZABLE'], `${result.error}`)
        }
        assert.equal(await store.agent('s', 'a').has(), false)
      })
    }
  }

  it('stores what it has checked, even if a getter would answer otherwise the second time', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    let asked = 0
    const state = {
      get iteration() {
        asked += 1
        return asked === 1 ? 1 : 'not a number'
      },
    }
    await saved(agent, state)
    assert.equal((await agent.latest()).iteration, 1)
  })

  it('keeps a member that is called toJSON and is no function', async () => {
    const store = await open()
    const agent = store.agent('s', 'a')
    await saved(agent, { toJSON: 'data' })
    assert.deepEqual(stateIn(await agent.latest()), { messages: [], toolCalls: [], toJSON: 'data' })
  })
})

describe('a file of an agent', () => {
  const reindented = async (state) => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const { checkpointId, path } = await saved(agent, state)
    writeFileSync(path, JSON.stringify(JSON.parse(readFileSync(path, 'utf8')), null, 4))
    return agent.verify(checkpointId)
  }

  it('that a person re-indented is whole, even with members that are called like indices', async () => {
    // Engines put these first whenever they read an object.
    assert.equal((await reindented({ b: 1, 7: 'seven', 0: 'zero' })).whole, true)
  })

  it('that a person re-indented is whole, even if it stays for longer than numbers are exact', async () => {
    for (const ttlMs of [Number.MAX_SAFE_INTEGER, 1e300]) assert.equal((await reindented({ ttlMs })).whole, true)
  })

  it('does not remember which damaged ones were passed over before it', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    await saved(agent, { iteration: 1 })
    const damaged = await saved(agent, { iteration: 2 })
    writeFileSync(damaged.path, '')
    const found = await agent.latest()
    assert.equal(found.passedOver.length, 1)
    await saved(agent, { ...found, iteration: 3 })
    const next = await agent.latest()
    assert.equal(next.iteration, 3)
    assert.equal('passedOver' in next, false)
  })
})
