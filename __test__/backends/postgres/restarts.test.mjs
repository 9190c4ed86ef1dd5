// A server that is restarted or killed while stores write.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { KEEP_ALL, WRITES, assertCount, outcomeOf } from '../../support/fault-outcomes.mjs'
import { ownServer, serverFor } from '../../support/postgres-servers.mjs'
import { newSchema, openStore } from '../../support/stores.mjs'
import { until } from '../../support/waiting.mjs'

const WRITERS = 8
const INTERRUPTIONS = 4
/** Acknowledged writes per writer between two interruptions. */
const WRITES_BETWEEN = 6

const KINDS = ['a checkpoint', 'a delta', 'a session', 'a task tree', 'a result', 'a checkpoint of an agent']

/** Interrupts the server while eight writers run, and checks what each of them stored. */
async function interrupted(server, interrupt) {
  const location = newSchema(server.url)
  const store = await openStore(location, KEEP_ALL)
  const calls = []
  const acknowledged = Array.from({ length: WRITERS }, () => 0)
  const state = { isOver: false }
  const writer = async (number) => {
    for (let round = 0; !state.isOver; round += 1) {
      const kind = KINDS[(number + round) % KINDS.length]
      const name = `${number}-${round}`
      const outcome = await outcomeOf(() => WRITES[kind].write(store, name))
      calls.push({ kind, name, outcome })
      if (outcome.ended === 'done') acknowledged[number] += 1
    }
  }
  const writers = acknowledged.map((_, number) => writer(number))
  const allGoOn = () => {
    const goal = acknowledged.map((count) => count + WRITES_BETWEEN)
    return until(() => acknowledged.every((count, number) => count >= goal[number]))
  }
  for (let interruption = 0; interruption < INTERRUPTIONS; interruption += 1) {
    await allGoOn()
    await interrupt()
  }
  await allGoOn()
  state.isOver = true
  await Promise.all(writers)
  await store.close()

  const reader = await openStore(location, KEEP_ALL)
  assert.equal((await reader.verifySession('s')).whole, true)
  const found = new Map()
  for (const kind of KINDS) found.set(kind, (await WRITES[kind].names?.(reader)) ?? null)
  for (const { kind, name, outcome } of calls) {
    const names = found.get(kind)
    const count = names ? names.filter((other) => other === name).length : await WRITES[kind].count(reader, name)
    assertCount(count, outcome, `${kind}, ${name},`)
  }
  await reader.close()
  return calls
}

describe('eight writers', () => {
  it('lose nothing acknowledged while the server restarts repeatedly', ownServer, async (t) => {
    const server = await serverFor(t)
    await interrupted(server, () => server.restart())
  })

  it('lose nothing acknowledged while the server is killed repeatedly', ownServer, async (t) => {
    const server = await serverFor(t)
    await interrupted(server, async () => {
      await server.kill()
      await server.restart()
    })
  })
})

describe('a stopped server', () => {
  it('fails a call in time, and not if it is back within the limit', ownServer, async (t) => {
    const server = await serverFor(t)
    const location = newSchema(server.url)
    const [longTimeout, shortTimeout] = [await openStore(location), await openStore(location, { timeoutMs: 500 })]
    await server.kill()
    const { ended, error, ms } = await outcomeOf(() => shortTimeout.saveTaskResult('s', 't', 1))
    assert.ok(['WAYMARK_IO', 'WAYMARK_OUTCOME_UNKNOWN'].includes(ended), error)
    assert.ok(ms < 2500, `${ms} ms`)
    const saved = outcomeOf(() => longTimeout.saveTaskResult('s', 't', 2))
    await server.restart()
    assert.equal((await saved).ended, 'done', (await saved).error)
    assert.equal(await shortTimeout.loadTaskResult('s', 't'), 2)
    await Promise.all([longTimeout.close(), shortTimeout.close()])
  })
})
