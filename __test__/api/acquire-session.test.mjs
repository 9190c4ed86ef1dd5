import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { LONG, blockEventLoop, ownerAndOther } from '../support/leases.mjs'
import { killNode, runNode, startNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import {
  CheckpointStore,
  OPTIONS,
  backends,
  checkpointOf,
  durableBackends,
  onEveryBackend,
  openStore,
} from '../support/stores.mjs'
import { until } from '../support/waiting.mjs'

const NO_SIGNALS = process.platform === 'win32' && 'processes cannot be stopped on Windows'

const isLost = { code: 'WAYMARK_LEASE_LOST' }

/** Asserts that a result reports another owner of the session. */
function assertRefused(result) {
  assert.deepEqual([result.success, result.code], [false, 'WAYMARK_LEASE_LOST'])
}

const NO_PRLIMIT =
  spawnSync('prlimit', ['--version']).error !== undefined &&
  'there is no `prlimit` to let no file grow, like a full disk'

onEveryBackend('acquireSession', (open) => {
  it('returns a lease with a number and an expiry under which the owner writes', async () => {
    const store = await open()
    const before = Date.now()
    const lease = await store.acquireSession('s', { owner: 'me', ttlMs: 5000 })
    assert.deepEqual([lease.sessionId, lease.owner, lease.isLost, lease.isReleased], ['s', 'me', false, false])
    assert.ok(Number.isSafeInteger(lease.number) && lease.number > 0)
    assert.ok(lease.expiresAt >= before + 4900 && lease.expiresAt <= Date.now() + 5100, `${lease.expiresAt}`)
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    await checkpointOf(store, makeSession('s'))
    await checkpointOf(store, makeSession('other'))
    await lease.release()
    assert.equal(lease.isReleased, true)
  })

  it('rejects a second owner and names the first', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', { owner: 'the "first"\\é', ...LONG })
    await assert.rejects(store.acquireSession('s', { owner: 'second' }), (error) => {
      assert.equal(error.code, 'WAYMARK_LEASE_HELD')
      assert.deepEqual(error.lease, { owner: lease.owner, number: lease.number, expiresAt: error.lease.expiresAt })
      assert.ok(Math.abs(error.lease.expiresAt - lease.expiresAt) < 1000)
      assert.match(error.message, /^Session s is leased to "the \\"first\\".* ms/)
      return true
    })
    await lease.release()
    const second = await store.acquireSession('s', { owner: 'second' })
    assert.ok(second.number > lease.number)
    await second.release()
  })

  it('shows the owner in sessionsInfo until the lease is released', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    await store.saveSession(makeSession('t'))
    const lease = await store.acquireSession('s', { owner: 'me "myself"', ...LONG })
    const [s, t] = await store.sessionsInfo()
    assert.deepEqual([s.lease.owner, s.lease.number, t.lease], ['me "myself"', lease.number, undefined])
    assert.ok(Math.abs(s.lease.expiresAt - lease.expiresAt) < 1000)
    await lease.release()
    assert.equal((await store.sessionsInfo())[0].lease, undefined)
  })

  it('keeps the session past its ttl while the owner is alive', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', { ttlMs: 150 })
    const first = lease.expiresAt
    await sleep(500)
    assert.ok(lease.expiresAt > first)
    assert.deepEqual([lease.isLost, lease.signal.aborted], [false, false])
    await assert.rejects(store.acquireSession('s'), { code: 'WAYMARK_LEASE_HELD' })
    await lease.release()
  })

  it('with force takes the session and notifies the former owner', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', { owner: 'first', ttlMs: 200 })
    const second = await store.acquireSession('s', { owner: 'second', force: true, ...LONG })
    assert.ok(second.number > lease.number)
    await until(() => lease.signal.aborted)
    assert.equal(lease.isLost, true)
    assert.equal(lease.signal.reason.code, 'WAYMARK_LEASE_LOST')
    await assert.rejects(lease.renew(), isLost)
    await lease.release()
    await second.renew()
    assert.equal((await store.saveSession(makeSession('s'))).success, true, 'the second lease is of the same store')
    await second.release()
    await assert.rejects(second.renew(), isLost)
  })

  it('with waitMs acquires the session when it is released', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    const waiting = store.acquireSession('s', { owner: 'waiting', waitMs: 20_000 })
    await sleep(50)
    await lease.release()
    const second = await waiting
    assert.equal(second.owner, 'waiting')
    await second.release()
  })

  it('with waitMs ends at a signal or after the time', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    const controller = new AbortController()
    const waiting = store.acquireSession('s', { waitMs: Infinity, signal: controller.signal })
    setTimeout(() => controller.abort(new Error('enough')), 30)
    await assert.rejects(waiting, (error) => error.code === 'ABORT_ERR' && error.cause.message === 'enough')
    await assert.rejects(store.acquireSession('s', { waitMs: 30 }), { code: 'WAYMARK_LEASE_HELD' })
    await assert.rejects(store.acquireSession('s', { signal: AbortSignal.abort() }), { code: 'ABORT_ERR' })
    await lease.release()
  })

  it('releases at the end of an await using block', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    await lease[Symbol.asyncDispose]()
    assert.equal(lease.isReleased, true)
    await (await store.acquireSession('s')).release()
  })

  it('lets the owner delete the session and create it again', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    await store.saveSession(makeSession('s'))
    assert.equal((await store.deleteSession('s')).success, true)
    assert.deepEqual(await store.sessionsInfo(), [])
    await lease.renew()
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    await store.deleteSession('s')
    await lease.release()
    const next = await store.acquireSession('s')
    assert.ok(next.number > lease.number)
    await next.release()
  })

  it('rejects invalid ids, owners, times and signals, and never throws', async () => {
    const store = await open()
    const wrong = [
      [['s', { owner: '' }], 'WAYMARK_INVALID_ARGUMENT', /options\.owner/],
      [['s', { owner: 'a\nb' }], 'WAYMARK_INVALID_ARGUMENT', /options\.owner/],
      [['s', { owner: 'x'.repeat(201) }], 'WAYMARK_INVALID_ARGUMENT', /options\.owner/],
      [['s', { owner: 7 }], 'WAYMARK_INVALID_ARGUMENT', /options\.owner/],
      [['s', { ttlMs: 49 }], 'WAYMARK_INVALID_ARGUMENT', /options\.ttlMs/],
      [['s', { ttlMs: 1e9 }], 'WAYMARK_INVALID_ARGUMENT', /options\.ttlMs/],
      [['s', { ttlMs: '1000' }], 'WAYMARK_INVALID_ARGUMENT', /options\.ttlMs/],
      [['s', { ttlMs: Number.NaN }], 'WAYMARK_INVALID_ARGUMENT', /options\.ttlMs/],
      [['s', { waitMs: -1 }], 'WAYMARK_INVALID_ARGUMENT', /options\.waitMs/],
      [['s', { force: 'yes' }], 'WAYMARK_INVALID_ARGUMENT', /options\.force/],
      [['s', { signal: {} }], 'WAYMARK_INVALID_ARGUMENT', /options\.signal/],
      [['s', 'me'], 'WAYMARK_INVALID_ARGUMENT', /options must be an object/],
      [['../s'], 'WAYMARK_INVALID_ID', /session id/],
      [[undefined], 'WAYMARK_INVALID_ARGUMENT', /sessionId/],
    ]
    for (const [args, code, message] of wrong) await assert.rejects(store.acquireSession(...args), { code, message })
    for (const status of ['', 7, [], ['active', 7], null]) {
      const next = store.acquireNext({ status })
      if (status === '') assert.equal(await next, null)
      else await assert.rejects(next, { code: 'WAYMARK_INVALID_ARGUMENT', message: /options\.status/ })
    }
  })
})

onEveryBackend('acquireNext', (open) => {
  it('takes each session without an owner once, if its status is an active one', async () => {
    const store = await open()
    const statuses = { a: 'active', b: 'paused', c: 'completed', d: 'initializing', e: 'archived', f: 'active' }
    for (const [id, status] of Object.entries(statuses)) await store.saveSession(makeSession(id, { status }))
    await store.createSessionDirectory('never-saved')
    const owned = await store.acquireSession('f', LONG)
    const leases = await Promise.all(Array.from({ length: 5 }, () => store.acquireNext(LONG)))
    const taken = leases.filter(Boolean)
    assert.deepEqual(taken.map(({ sessionId }) => sessionId).toSorted(), ['a', 'd'])
    assert.equal(await store.acquireNext(), null)
    for (const lease of [...taken, owned]) await lease.release()
  })

  it('takes sessions of the given status or of one of several', async () => {
    const store = await open()
    for (const status of ['active', 'paused', 'failed', 'completed'])
      await store.saveSession(makeSession(status, { status }))
    assert.equal((await store.acquireNext({ status: 'paused', ...LONG })).sessionId, 'paused')
    assert.equal(await store.acquireNext({ status: 'paused' }), null)
    assert.equal((await store.acquireNext({ status: ['paused', 'completed'], ...LONG })).sessionId, 'completed')
    assert.equal(await store.acquireNext({ status: ['nothing'] }), null)
  })

  it('waits for a session', async () => {
    const store = await open()
    const waiting = store.acquireNext({ status: 'paused', waitMs: 20_000 })
    await sleep(50)
    await store.saveSession(makeSession('s', { status: 'paused' }))
    assert.equal((await waiting).sessionId, 's')
  })
})

for (const name of durableBackends) {
  const newLocation = backends[name]

  describe(`two stores on one location (${name})`, () => {
    /** Two stores and a session that the first one owns. */
    async function two(options = LONG) {
      const location = newLocation()
      const [first, second] = [await openStore(location), await openStore(location)]
      const lease = await first.acquireSession('s', options)
      await first.saveSession(makeSession('s'))
      const { checkpointId } = await checkpointOf(first, makeSession('s'))
      return { location, first, second, lease, checkpointId }
    }

    it('every method that changes an owned session is rejected to the other store', async () => {
      const { first, second, lease, checkpointId } = await two()
      const session = makeSession('s', { name: 'overwritten' })
      assertRefused(await second.saveSession(session))
      assertRefused(await second.saveTaskTree('s', {}))
      assertRefused(await second.saveTaskResult('s', 't', 1))
      for (const encoding of ['json', 'gzip', 'zstd', 'delta']) {
        assertRefused(await second.createCheckpoint(session, { ...OPTIONS, encoding }))
      }
      assertRefused(await second.restoreCheckpoint({ sessionId: 's', checkpointId }))
      assertRefused(await second.recoverSession('s'))
      assertRefused(await second.deleteCheckpoint('s', checkpointId))
      assertRefused(await second.deleteSession('s'))
      assertRefused(await second.labelCheckpoint('s', checkpointId, 'label'))
      assertRefused(await second.pinCheckpoint('s', checkpointId))
      assertRefused(await second.agent('s', 'a').save({ messages: [] }))
      await assert.rejects(second.createSessionDirectory('s'), isLost)
      await assert.rejects(second.setRetention('s', { keepLast: 1 }), isLost)
      await assert.rejects(second.convert('s', 'zstd'), isLost)
      await assert.rejects(second.deleteSessionCheckpoints('s'), isLost)
      const from = await openStore()
      await from.saveSession(session)
      await assert.rejects(from.copyTo(second), isLost)
      const pruned = await second.prune({ retention: { maxAgeMs: 1 } })
      assert.equal(pruned.removed.length, 0)
      // No rejected call left a trace, and reading is allowed.
      assert.equal((await second.loadSession('s')).name, makeSession('s').name)
      assert.equal((await second.listCheckpoints('s')).total, 1)
      assert.equal((await second.verifySession('s')).whole, true)
      // The owner can write, and the other store to other sessions.
      assert.equal((await first.saveSession(session)).success, true)
      assert.equal((await second.saveSession(makeSession('t'))).success, true)
      await lease.release()
      assert.equal((await second.saveSession(session)).success, true)
    })

    it('an expired session stays with its owner until another store takes it', async () => {
      const { first, second, lease } = await two()
      await first.saveSession(makeSession('s', { status: 'completed', expiresAt: 1 }))
      assert.deepEqual(await second.expireSessions(Date.now(), { action: 'delete' }), [])
      await lease.release()
      assert.equal((await second.expireSessions(Date.now(), { action: 'delete' })).length, 1)
    })

    it('a former owner is rejected for good after a takeover', async () => {
      const { first, second, lease } = await two()
      const next = await second.acquireSession('s', { force: true, ...LONG })
      assertRefused(await first.saveSession(makeSession('s')))
      assertRefused(await first.createCheckpoint(makeSession('s'), OPTIONS))
      const { checkpointId } = await checkpointOf(second, makeSession('s', { name: 'later' }))
      assert.equal((await first.getLatestCheckpoint('s')).id, checkpointId, 'what the successor makes is the newest')
      await next.release()
      assertRefused(await first.saveSession(makeSession('s')))
      await lease.release()
      assert.equal((await first.saveSession(makeSession('s'))).success, true)
      const again = await first.acquireSession('s')
      assert.ok(again.number > next.number)
      await again.release()
    })

    it('acquireNext finds the sessions of a killed process', async () => {
      const location = newLocation()
      const program = `
        const store = new CheckpointStore(${JSON.stringify(location)})
        await store.initialize()
        await store.saveSession({ id: 's', status: 'active', taskTree: {}, checkpointIds: [] })
        const lease = await store.acquireSession('s', { owner: 'killed', ttlMs: 400 })
        console.log(lease.number)
        for (;;) await new Promise((resolve) => setTimeout(resolve, 1000))
      `
      const [number] = await killNode(program, { afterLines: 1 })
      const store = await openStore(location)
      const lease = await store.acquireNext({ owner: 'successor', waitMs: 20_000 })
      assert.equal(lease.sessionId, 's')
      assert.ok(lease.number > Number(number))
      assert.equal((await store.saveSession(makeSession('s'))).success, true)
      await lease.release()
    })

    const successors = {
      'a successor': (store) => store.acquireSession('s', { owner: 'successor', waitMs: 20_000, ...LONG }),
      'a store without a lease': async (store) => {
        await until(async () => !(await store.sessionsInfo())[0].lease)
      },
    }
    for (const [who, takeOver] of Object.entries(successors)) {
      it(`a takeover is safe from a process stopped past its ttl: ${who}`, { skip: NO_SIGNALS }, async () => {
        const location = newLocation()
        const stopped = startNode(`
          const store = new CheckpointStore(${JSON.stringify(location)})
          await store.initialize()
          const session = { id: 's', status: 'active', name: 'stopped', taskTree: {}, checkpointIds: [] }
          const lease = await store.acquireSession('s', { owner: 'stopped', ttlMs: 1500 })
          await store.saveSession(session)
          console.log('owned')
          process.stdin.once('data', async () => {
            const results = await Promise.all([
              store.saveSession(session),
              store.createCheckpoint(session, { trigger: 'auto' }),
              store.saveTaskResult('s', 't', 'stopped'),
              store.deleteSession('s'),
            ])
            if (!lease.signal.aborted) await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
            console.log(JSON.stringify(results.map(({ code }) => code)))
            process.exit()
          })
        `)
        try {
          await until(() => stopped.printed().includes('owned'))
          // Right after the acquisition it holds no lock.
          stopped.child.kill('SIGSTOP')
          const store = await openStore(location)
          const lease = await takeOver(store)
          await store.saveSession(makeSession('s', { name: 'successor' }))
          await store.saveTaskResult('s', 't', 'successor')
          const { checkpointId } = await checkpointOf(store, makeSession('s', { name: 'successor' }))
          stopped.child.stdin.write('go on')
          stopped.child.kill('SIGCONT')
          await stopped.ended
          assert.deepEqual(
            JSON.parse(stopped.printed().trim().split('\n').at(-1)),
            Array.from({ length: 4 }, () => 'WAYMARK_LEASE_LOST'),
          )
          assert.equal((await store.loadSession('s')).name, 'successor')
          assert.equal(await store.loadTaskResult('s', 't'), 'successor')
          assert.equal((await store.getLatestCheckpoint('s')).id, checkpointId)
          await lease?.release()
        } finally {
          stopped.child.kill('SIGKILL')
        }
      })
    }
  })
}

describe('leases', () => {
  it('do not keep the process alive', async () => {
    const program = `
      const store = new CheckpointStore('memory:')
      await store.initialize()
      await store.acquireSession('s')
    `
    assert.equal((await runNode(program, { timeout: 20_000 })).code, 0)
  })

  it('are not sessions in a directory, and are deleted with their session', async () => {
    const location = backends.files()
    const store = await openStore(location)
    const lease = await store.acquireSession('secret', LONG)
    assert.deepEqual([await store.listSessions(), await store.sessionsInfo()], [[], []])
    await store.saveSession(makeSession('secret'))
    await lease.release()
    await store.deleteSession('secret')
    assert.deepEqual(
      readdirSync(join(location, '.leases')).filter((name) => !name.startsWith('.lock-')),
      [],
    )
  })

  it('that cannot be read are reported and block writes', async () => {
    const location = backends.files()
    const store = await openStore(location)
    const lease = await store.acquireSession('s', LONG)
    const record = join(location, '.leases', 's.json')
    writeFileSync(record, 'nonsense')
    const { success, code, error } = await store.saveSession(makeSession('s'))
    assert.deepEqual([success, code], [false, 'WAYMARK_CORRUPT'])
    assert.ok(error.startsWith(`${record} is damaged`), error)
    await assert.rejects(lease.release(), { code: 'WAYMARK_CORRUPT' })
  })

  it('are rejected by a store that is not open', async () => {
    const store = new CheckpointStore('memory:')
    await assert.rejects(store.acquireSession('s'), { code: 'WAYMARK_NOT_INITIALIZED' })
    await assert.rejects(store.acquireNext(), { code: 'WAYMARK_NOT_INITIALIZED' })
  })
})

describe('an expired lease on a full disk', { skip: NO_PRLIMIT }, () => {
  it('lets other stores delete checkpoints and rejects its owner', async () => {
    const location = backends.files()
    const owner = await openStore(location)
    const lease = await owner.acquireSession('s', { ttlMs: 50 })
    await owner.saveSession(makeSession('s'))
    const { checkpointId } = await checkpointOf(owner, makeSession('s'))
    blockEventLoop(120)
    const program = `
      const { CheckpointStore } = require(${JSON.stringify(fileURLToPath(new URL('../../index.js', import.meta.url)))})
      const store = new CheckpointStore(${JSON.stringify(location)})
      store.initialize()
        .then(() => store.deleteCheckpoint('s', ${JSON.stringify(checkpointId)}))
        .then((deleted) => console.log(JSON.stringify(deleted)))
    `
    // The event loop is blocked, so the lease is not renewed meanwhile.
    const { stdout, stderr } = spawnSync('prlimit', ['--fsize=0', process.execPath, '--eval', program])
    assert.deepEqual(JSON.parse(String(stdout) || `"${stderr}"`), { success: true })
    assert.equal((await owner.saveSession(makeSession('s'))).code, 'WAYMARK_LEASE_LOST')
    await assert.rejects(lease.renew(), isLost)
  })
})

describe('an unreadable lease record', () => {
  it('of one session does not hide that another lease was lost', async () => {
    const { location, owner, other, lease } = await ownerAndOther()
    await owner.saveSession(makeSession('t'))
    writeFileSync(join(location, '.leases', 't.json'), 'nonsense')
    await other.acquireSession('s', { force: true, ...LONG })
    await assert.rejects(lease.renew(), isLost)
    assert.deepEqual([lease.isLost, lease.signal.aborted], [true, true])
  })

  it('of one session does not block acquireNext for others', async () => {
    const location = backends.files()
    const store = await openStore(location)
    for (const id of ['a', 'b', 'c']) await store.saveSession(makeSession(id, { status: 'active' }))
    const lease = await store.acquireSession('c', { owner: 'me', ...LONG })
    writeFileSync(join(location, '.leases', 'a.json'), 'nonsense')
    assert.deepEqual(
      (await store.sessionsInfo()).map(({ id, lease: of }) => [id, of?.owner]),
      [
        ['a', undefined],
        ['b', undefined],
        ['c', 'me'],
      ],
    )
    const next = await store.acquireNext(LONG)
    assert.equal(next.sessionId, 'b')
    for (const one of [lease, next]) await one.release()
  })
})

onEveryBackend('a lease', (open) => {
  it('never claims a longer time than it has', async () => {
    const store = await open()
    const before = Date.now()
    const acquiring = store.acquireSession('s', { ttlMs: 5000 })
    blockEventLoop(300)
    const lease = await acquiring
    assert.ok(lease.expiresAt - before <= 5200, `${lease.expiresAt - before} ms, of 5000`)
    const renewedAt = Date.now()
    const renewing = lease.renew()
    blockEventLoop(300)
    await renewing
    assert.ok(lease.expiresAt - renewedAt <= 5200, `${lease.expiresAt - renewedAt} ms, of 5000`)
    await lease.release()
  })

  it('can be released after a first attempt failed', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    await store.close()
    await assert.rejects(lease.release(), { code: 'WAYMARK_CLOSED' })
    await store.initialize()
    await lease.release()
    await (await store.acquireSession('s')).release()
  })

  it('past its ttl stays with an owner who deletes and recreates the session', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', { ttlMs: 50 })
    await store.saveSession(makeSession('s'))
    blockEventLoop(120)
    const deleting = store.deleteSession('s')
    // The event loop is blocked, so the lease is not renewed before.
    blockEventLoop(200)
    assert.equal((await deleting).success, true)
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    await lease.renew()
    assert.equal(lease.isLost, false)
    await lease.release()
  })

  it('is renewed before queued calls of its owner are done', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    await checkpointOf(store, makeSession('s'), { ...OPTIONS, encoding: 'zstd' }, {}, { text: 'x'.repeat(4_000_000) })
    let done = 0
    const works = Array.from({ length: 100 }, async () => {
      assert.equal((await store.verifySession('s')).whole, true)
      done += 1
    })
    await lease.renew()
    const doneBefore = done
    await Promise.all(works)
    assert.ok(doneBefore < 50, `${doneBefore} of 100 came first`)
    await lease.release()
  })
})

for (const name of durableBackends) {
  it(`a lost lease is not reported as deleted when the session was not deleted (${name})`, async () => {
    const location = backends[name]()
    const [first, second] = [await openStore(location), await openStore(location)]
    await first.saveSession(makeSession('s'))
    const lease = await first.acquireSession('s', LONG)
    await (await second.acquireSession('s', { force: true })).release()
    await assert.rejects(lease.renew(), (error) => {
      assert.equal(error.code, 'WAYMARK_LEASE_LOST')
      assert.doesNotMatch(error.message, /is lost: it was deleted\./)
      return true
    })
  })
}
