// A process stopped during a write keeps its locks: other stores get an error, and nothing is lost.

import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'

import { LOCK_OF_S, LONG, NO_FLOCK, contents, hold, isPending, ownerAndOther } from '../support/leases.mjs'
import { startNode } from '../support/processes.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { OPTIONS, backends, checkpointOf, openStore } from '../support/stores.mjs'
import { until } from '../support/waiting.mjs'

const TIMEOUT_MS = 200

const NO_SIGSTOP = process.platform === 'win32' && 'no process can be stopped'

const started = new Set()
after(() => {
  for (const child of started) child.kill('SIGKILL')
})

/** Saves session `s` repeatedly until its input ends; prints the number of each acknowledged save. */
const writer = (location) => `
  const store = new CheckpointStore(${JSON.stringify(location)})
  await store.initialize()
  let isOver = false
  process.stdin.on('end', () => { isOver = true }).resume()
  const filler = 'x'.repeat(4_000_000)
  for (let number = 1; !isOver; number += 1) {
    const saved = await store.saveSession({ ...${JSON.stringify(makeSession('s'))}, number, filler })
    if (!saved.success) throw new Error(saved.error)
    console.log(number)
  }
  await store.close()
`

/** How a call fails: its rejection or its failed result. */
async function refusalOf(call) {
  const result = await call().catch((error) => ({ success: false, code: error.code, error: error.message }))
  assert.equal(result?.success, false, 'it was refused')
  return result
}

/**
 * A store with a session and a checkpoint, and a process stopped while it holds the lock of that session: the probes
 * of two stores are rejected.
 */
async function stoppedWriter(location) {
  const store = await openStore(location, { timeoutMs: TIMEOUT_MS })
  await store.saveSession(makeSession('s'))
  await store.saveSession(makeSession('old', { status: 'completed', expiresAt: 1 }))
  const { checkpointId } = await checkpointOf(store, makeSession('s'))
  const { child, ended, printed } = startNode(writer(location))
  started.add(child)
  await until(() => printed().includes('\n'))
  const [shortTimeout, longTimeout] = [await openStore(location, { timeoutMs: 1 }), store]
  const isRefused = async (probe) => (await probe.saveTaskTree('s', makeTree())).code === 'WAYMARK_BUSY'
  await until(async () => {
    child.kill('SIGSTOP')
    if ((await isRefused(shortTimeout)) && (await isRefused(longTimeout))) return true
    child.kill('SIGCONT')
    return false
  })
  await shortTimeout.close()
  const resume = async () => {
    const acknowledged = () => Number(printed().trim().split('\n').at(-1))
    const before = acknowledged()
    child.kill('SIGCONT')
    await until(() => acknowledged() > before)
    child.stdin.end()
    assert.equal(await ended, 0)
    return acknowledged()
  }
  return { store, checkpointId, pid: child.pid, resume }
}

const WRITES = {
  saveSession: ({ store }) => store.saveSession(makeSession('s')),
  saveTaskTree: ({ store }) => store.saveTaskTree('s', makeTree()),
  labelCheckpoint: ({ store, checkpointId }) => store.labelCheckpoint('s', checkpointId, 'good'),
  restoreCheckpoint: ({ store, checkpointId }) => store.restoreCheckpoint({ sessionId: 's', checkpointId }),
  setRetention: ({ store }) => store.setRetention('s', { keepLast: 7 }),
}

/** Without a time limit for locks, the store would wait forever. */
const LIMITS = { skip: NO_SIGSTOP, concurrency: true, timeout: 120_000 }

describe('a process stopped while it saves a session', LIMITS, () => {
  it('is named by every rejected write, and blocks no read and no close (files)', async () => {
    const world = await stoppedWriter(backends.files())
    const { store, checkpointId, pid, resume } = world
    const names = `by process ${pid} on ${hostname()}`
    for (const [name, write] of Object.entries(WRITES)) {
      const { code, error } = await refusalOf(() => write(world))
      assert.equal(code, 'WAYMARK_BUSY', `${name}: ${error}`)
      assert.ok(error.includes(names), `${name}: ${error}`)
    }
    // A session that has not expired is not locked.
    assert.deepEqual(
      (await store.expireSessions()).map(({ sessionId }) => sessionId),
      ['old'],
    )

    assert.equal((await store.loadSession('s')).id, 's')
    assert.equal((await store.sessionsInfo()).length, 2)
    assert.equal((await store.getCheckpoint('s', checkpointId)).id, checkpointId)
    assert.equal((await store.verifyCheckpoint('s', checkpointId)).whole, true)
    const second = await checkpointOf(store, makeSession('s'))

    const calls = Array.from({ length: 40 }, () => refusalOf(() => store.saveSession(makeSession('s'))))
    await store.close()
    for (const { code } of await Promise.all(calls)) assert.equal(code, 'WAYMARK_BUSY')

    const last = await resume()
    await store.initialize()
    assert.equal((await store.loadSession('s')).number, last)
    assert.equal((await store.listCheckpointInfo('s')).total, 2)
    assert.equal((await store.verifySession('s')).whole, true)
    for (const write of Object.values(WRITES)) assert.notEqual((await write(world))?.success, false)
    assert.equal((await store.getCheckpointByLabel('s', 'good')).id, checkpointId)
    assert.deepEqual(await store.expireSessions(), [])
    assert.equal((await store.verifyCheckpoint('s', second.checkpointId)).whole, true)
  })

  it('blocks every write, but no read and no close (sqlite)', async () => {
    const world = await stoppedWriter(backends.sqlite())
    const { store, checkpointId, resume } = world
    const writes = {
      ...WRITES,
      createCheckpoint: () => store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS),
      expireSessions: () => store.expireSessions(),
      acquireSession: () => store.acquireSession('s', { owner: 'me' }),
    }
    for (const [name, write] of Object.entries(writes)) {
      const { code, error } = await refusalOf(() => write(world))
      assert.equal(code, 'WAYMARK_BUSY', `${name}: ${error}`)
    }
    assert.equal((await store.loadSession('s')).id, 's')
    assert.equal((await store.verifyCheckpoint('s', checkpointId)).whole, true)

    const calls = Array.from({ length: 40 }, (_, number) =>
      refusalOf(() =>
        number % 2 ? store.saveSession(makeSession('s')) : store.labelCheckpoint('s', checkpointId, 'x'),
      ),
    )
    await store.close()
    for (const { code } of await Promise.all(calls)) assert.equal(code, 'WAYMARK_BUSY')

    const last = await resume()
    await store.initialize()
    assert.equal((await store.loadSession('s')).number, last)
    for (const write of Object.values(WRITES)) assert.notEqual((await write(world))?.success, false)
    assert.equal((await store.verifySession('s')).whole, true)
  })
})

describe('a process stopped inside a critical section', { skip: NO_FLOCK, concurrency: true }, () => {
  /** Two stores, a session that the first one owns, and another process that holds the lock of its lease. */
  async function stopped() {
    const world = await ownerAndOther({ timeoutMs: 300 })
    await world.owner.saveSession(makeSession('s', { status: 'active' }))
    return { ...world, letGo: await hold(join(world.location, '.leases', LOCK_OF_S)) }
  }

  it('does not hang writers or close', async () => {
    const { owner, letGo } = await stopped()
    const { success, code, cause } = await owner.saveSession(makeSession('s'))
    assert.deepEqual([success, code, cause.code], [false, 'WAYMARK_BUSY', 'EBUSY'])
    await owner.close()
    await letGo()
  })

  it('is waited for by acquireSession with waitMs', async () => {
    const { owner, other, lease, letGo } = await stopped()
    const waiting = other.acquireSession('s', { owner: 'waiting', waitMs: 60_000 })
    // Longer than one attempt.
    assert.ok(await isPending(waiting, 1000))
    await letGo()
    await lease.release()
    assert.equal((await waiting).owner, 'waiting')
    await owner.close()
  })

  it('does not keep acquireNext from later sessions', async () => {
    const { location, owner, other, lease, letGo } = await stopped()
    await owner.saveSession(makeSession('z', { status: 'active' }))
    const record = join(location, '.leases', 's.json')
    // The record of an expired lease.
    writeFileSync(`${record}.new`, JSON.stringify({ number: lease.number, owner: lease.owner, expiresAt: 1 }))
    renameSync(`${record}.new`, record)
    const next = await other.acquireNext(LONG)
    assert.equal(next.sessionId, 'z')
    await letGo()
    await next.release()
  })
})

describe('the first lease of a session', { skip: NO_FLOCK }, () => {
  const methods = {
    saveSession: (store) => store.saveSession(makeSession('s', { name: 'late' })),
    saveTaskResult: (store) => store.saveTaskResult('s', 't', 'late'),
    createCheckpoint: (store) => store.createCheckpoint(makeSession('s'), OPTIONS),
    deleteSession: (store) => store.deleteSession('s'),
  }
  for (const [name, write] of Object.entries(methods)) {
    it(`${name} waits for the lease lock`, async () => {
      const location = backends.files()
      const store = await openStore(location)
      await store.saveSession(makeSession('s'))
      await (await store.acquireSession('other')).release()
      // Another store may become the owner between the ownership check and the atomic step.
      const letGo = await hold(join(location, '.leases', LOCK_OF_S))
      const before = contents(location)
      const writing = write(store)
      assert.ok(await isPending(writing), 'it did not wait')
      assert.equal((await store.loadSession('s')).name, makeSession('s').name)
      assert.deepEqual(Object.keys(contents(location)), Object.keys(before))
      await letGo()
      assert.equal((await writing).success, true)
    })
  }
})
