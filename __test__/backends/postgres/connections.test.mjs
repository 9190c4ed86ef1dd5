// Connections that break, hang or are slow at every request of a call.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { query } from '../../../scripts/postgres-wire.mjs'
import { KEEP_ALL, READS, WRITES, assertCount, countOf, outcomeOf } from '../../support/fault-outcomes.mjs'
import '../../support/postgres-servers.mjs'
import { FAULTS, startProxy } from '../../support/proxy.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { checkpointOf, newSchema, openStore } from '../../support/stores.mjs'
import { until } from '../../support/waiting.mjs'

const TIMEOUT_MS = 400
/** Tolerance for a busy machine. */
const SLACK_MS = 2000
/** More requests than any call makes. */
const MANY = 200

/** Most of the time is spent waiting. */
const concurrency = 6

/** A store behind a proxy, and another on the same location without one. */
async function storesFor(t, timeoutMs = TIMEOUT_MS) {
  const location = newSchema()
  const direct = await openStore(location, KEEP_ALL)
  const named = new URL(location)
  named.searchParams.set('application_name', named.searchParams.get('schema'))
  const proxy = await startProxy(named.href)
  const store = await openStore(proxy.url, { ...KEEP_ALL, timeoutMs })
  t.after(async () => {
    await proxy.close()
    await Promise.all([direct.close(), store.close()])
  })
  return { direct, proxy, store }
}

/** Resolves when the server has completed everything sent through the proxy, awaited or not. */
async function quiet({ url }) {
  const name = new URL(url).searchParams.get('application_name')
  const sql = `SELECT 1 FROM pg_stat_activity WHERE application_name = '${name}' AND state <> 'idle'`
  while ((await query(process.env.WAYMARK_TEST_DATABASE_URL, sql)).rows.length > 0) await sleep(5)
}

/** Makes a call while `times` of its requests fail, `after` this many; resolves to whether any did. */
async function inTrouble({ proxy, fault, after, times }, call) {
  const name = `${fault} ${times} ${after}`
  let happened = 0
  const outcome = await call(name, async (work) => {
    proxy.fail(fault, { after, times })
    const result = await outcomeOf(work)
    happened = proxy.happened
    await proxy.heal()
    await quiet(proxy)
    assert.ok(result.ms < TIMEOUT_MS + SLACK_MS, `${name} took ${result.ms} ms`)
    return result
  })
  if (happened === 0) assert.equal(outcome.ended, 'done', outcome.error)
  return happened > 0
}

/** Repeats this for the first request, the second and so on, alone and with all following ones. */
async function atEveryRequest(proxy, fault, call) {
  for (const times of [1, Infinity]) {
    let after = 0
    while (await inTrouble({ proxy, fault, after, times }, call)) {
      after += 1
      assert.ok(after < MANY)
    }
    assert.ok(after > 0, 'it makes requests')
  }
}

it('prune reports every checkpoint that it deleted, also after a lost answer', async (t) => {
  // Nothing is to time out here: every request succeeds when it is repeated.
  const { direct, proxy, store } = await storesFor(t, 60_000)
  for (let after = 0, isOver = false; !isOver; after += 1) {
    const id = `s${after}`
    for (let count = 0; count < 5; count += 1) await checkpointOf(direct, makeSession(id))
    proxy.fail('cut after', { after, times: 1 })
    const { removed, failed } = await store.prune(id, { retention: { keepLast: 2 } })
    isOver = proxy.happened === 0
    await proxy.heal()
    assert.deepEqual([removed.length, failed.length], [3, 0], `after ${after} requests`)
    assert.ok(after < MANY)
  }
})

for (const fault of FAULTS) {
  describe(`a connection fault: ${fault}`, { concurrency }, () => {
    for (const [what, kind] of Object.entries(WRITES)) {
      it(`${what} is stored if it was acknowledged and not if it failed`, async (t) => {
        const { direct, proxy, store } = await storesFor(t)
        await checkpointOf(direct, makeSession('s'))
        await atEveryRequest(proxy, fault, async (name, troubled) => {
          const made = await kind.begin?.(direct, name)
          const outcome = await troubled(() => kind.write(store, name, made))
          assertCount(await countOf(kind, direct, name, made), outcome, `${what}, ${name},`)
          return outcome
        })
        assert.equal((await direct.verifySession('s')).whole, true)
      })
    }

    for (const [what, read] of Object.entries(READS)) {
      it(`${what} is read or reported as failed`, async (t) => {
        const { direct, proxy, store } = await storesFor(t)
        await direct.saveSession(makeSession('s'))
        for (let number = 0; number < 3; number += 1) await checkpointOf(direct, makeSession('s'))
        await atEveryRequest(proxy, fault, async (name, troubled) => {
          const outcome = await troubled(() => read(store).then(() => ({ success: true })))
          assert.ok(['done', 'WAYMARK_IO'].includes(outcome.ended), `${name}: ${outcome.ended}, ${outcome.error}`)
          return outcome
        })
      })
    }
  })
}

describe('a slow network', { concurrency }, () => {
  for (const [what, kind] of Object.entries(WRITES)) {
    it(`is tolerated within the time limit: ${what}`, async (t) => {
      const { direct, proxy, store } = await storesFor(t, 60_000)
      await checkpointOf(direct, makeSession('s'))
      const made = await kind.begin?.(direct, 'slow')
      proxy.fail('delay')
      const outcome = await outcomeOf(() => kind.write(store, 'slow', made))
      assert.equal(outcome.ended, 'done', outcome.error)
      assert.ok(outcome.ms > 600)
      await proxy.heal()
      assert.equal(await countOf(kind, direct, 'slow', made), 1)
    })

    it(`is reported as a timeout beyond the limit: ${what}`, async (t) => {
      const { direct, proxy, store } = await storesFor(t)
      await checkpointOf(direct, makeSession('s'))
      await inTrouble({ proxy, fault: 'delay', after: 0, times: Infinity }, async (name, troubled) => {
        const made = await kind.begin?.(direct, name)
        const outcome = await troubled(() => kind.write(store, name, made))
        assert.notEqual(outcome.ended, 'done')
        assertCount(await countOf(kind, direct, name, made), outcome, `${what}, ${name},`)
        return outcome
      })
    })
  }
})

describe('a write whose answer is lost', () => {
  for (const what of ['a session', 'a task tree', 'a checkpoint', 'a checkpoint of an agent']) {
    it(`is stored once, whatever is written before it is retried: ${what}`, async (t) => {
      const { direct, proxy, store } = await storesFor(t, 20_000)
      const kind = WRITES[what]
      await kind.write(store, 'first')
      proxy.fail('cut after', { times: 1 })
      const call = outcomeOf(() => kind.write(store, 'once'))
      await until(() => proxy.happened > 0)
      proxy.fail('hang')
      for (let number = 0; number < 30; number += 1) await kind.write(direct, `other ${number}`)
      await proxy.heal()
      const outcome = await call
      assert.equal(outcome.ended, 'done', outcome.error)
      assert.equal(await countOf(kind, direct, 'once'), 1)
    })
  }
})

describe('a checkpoint whose answer is lost', () => {
  for (const encoding of ['zstd', 'delta']) {
    it(`is stored once if it is converted to ${encoding} before it is retried`, async (t) => {
      const { direct, proxy, store } = await storesFor(t, 20_000)
      const kind = WRITES['a checkpoint']
      await kind.write(store, 'first')
      proxy.fail('cut after', { times: 1 })
      const call = outcomeOf(() => kind.write(store, 'once'))
      await until(() => proxy.happened > 0)
      proxy.fail('hang')
      await direct.convert('s', encoding)
      await proxy.heal()
      const outcome = await call
      assert.equal(outcome.ended, 'done', outcome.error)
      assert.equal(await countOf(kind, direct, 'once'), 1)
    })
  }
})

describe('a store after a network fault', () => {
  for (const fault of FAULTS) {
    it(`works again without further action: ${fault}`, async (t) => {
      const { proxy, store } = await storesFor(t)
      proxy.fail(fault)
      await Promise.all(Array.from({ length: 20 }, (_, n) => outcomeOf(() => store.saveTaskResult('s', `t${n}`, n))))
      await proxy.heal()
      const results = await Promise.all(Array.from({ length: 20 }, (_, n) => store.saveTaskResult('s', `t${n}`, n)))
      for (const { success, error } of results) assert.ok(success, error)
      assert.equal(await store.loadTaskResult('s', 't19'), 19)
    })
  }
})
