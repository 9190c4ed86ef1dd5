import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  OPTIONS,
  checkpointOf,
  durablePlaces,
  onEveryBackend,
  openStore,
  places,
  scratchDirectory,
} from '../support/stores.mjs'

const LONG = { ttlMs: 60_000 }

const isLost = { code: 'WAYMARK_LEASE_LOST' }

const NO_FLOCK =
  spawnSync('flock', ['--version']).error !== undefined && 'there is no `flock` to hold a lock like a stopped process'

const NO_PRLIMIT =
  spawnSync('prlimit', ['--version']).error !== undefined &&
  'there is no `prlimit` to let no file grow, like a full disk'

/** The lock that the lease of a session `s` is changed under. */
const LOCK_OF_S = '.lock-51'

/** Stands still for so long: no timer ticks. */
function standStill(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Two stores on one directory, of which the first owns the session `s`. */
async function ownerAndOther(options) {
  const place = places.files()
  const [owner, other] = [await openStore(place, options), await openStore(place, options)]
  const lease = await owner.acquireSession('s', LONG)
  return { place, owner, other, lease }
}

const holders = new Set()
after(() => {
  for (const child of holders) child.kill('SIGKILL')
})

/** Holds the lock of a file, like a process that was stopped in the middle of a step; the answer lets go of it. */
async function hold(file) {
  const child = spawn('flock', ['--exclusive', '--no-fork', file, process.execPath, '--eval', HOLD], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  holders.add(child)
  await new Promise((resolve) => {
    child.stdout.once('data', resolve)
  })
  return () => {
    const ended = new Promise((resolve) => {
      child.once('close', resolve)
    })
    child.kill('SIGKILL')
    return ended
  }
}

const HOLD = `console.log('held'); process.stdin.on('end', () => process.exit()).resume()`

/** Whether something is still under way after a while. */
async function isUnderWay(work, ms = 300) {
  const waits = Symbol('waits')
  return (await Promise.race([work, sleep(ms, waits)])) === waits
}

/** What a store holds for others to read, without the file of the lock. */
function contents(place) {
  const { '.leases/': _, ...sessions } = snapshotOf(place)
  return sessions
}

describe('a session that is taken for the first time', { skip: NO_FLOCK }, () => {
  const methods = {
    saveSession: (store) => store.saveSession(makeSession('s', { name: 'late' })),
    saveTaskResult: (store) => store.saveTaskResult('s', 't', 'late'),
    createCheckpoint: (store) => store.createCheckpoint(makeSession('s'), OPTIONS),
    deleteSession: (store) => store.deleteSession('s'),
  }
  for (const [name, write] of Object.entries(methods)) {
    it(`is waited for by those who know of no owner: ${name}`, async () => {
      const place = places.files()
      const store = await openStore(place)
      await store.saveSession(makeSession('s'))
      await (await store.acquireSession('other')).release()
      // Between the look at who owns it and the step that nobody sees half of, somebody else may become its owner.
      const letGo = await hold(join(place, '.leases', LOCK_OF_S))
      const before = contents(place)
      const writing = write(store)
      assert.ok(await isUnderWay(writing), 'it did not wait')
      assert.equal((await store.loadSession('s')).name, makeSession('s').name)
      assert.deepEqual(Object.keys(contents(place)), Object.keys(before))
      await letGo()
      assert.equal((await writing).success, true)
    })
  }
})

describe('a lease that is past its time, on a full disk', { skip: NO_PRLIMIT }, () => {
  it('keeps nobody from making room, and its owner is refused all the same', async () => {
    const place = places.files()
    const owner = await openStore(place)
    const lease = await owner.acquireSession('s', { ttlMs: 50 })
    await owner.saveSession(makeSession('s'))
    const { checkpointId } = await checkpointOf(owner, makeSession('s'))
    standStill(120)
    const program = `
      const { CheckpointStore } = require(${JSON.stringify(fileURLToPath(new URL('../../index.js', import.meta.url)))})
      const store = new CheckpointStore(${JSON.stringify(place)})
      store.initialize()
        .then(() => store.deleteCheckpoint('s', ${JSON.stringify(checkpointId)}))
        .then((deleted) => console.log(JSON.stringify(deleted)))
    `
    // Nobody renews it meanwhile: this waits without turning the loop.
    const { stdout, stderr } = spawnSync('prlimit', ['--fsize=0', process.execPath, '--eval', program])
    assert.deepEqual(JSON.parse(String(stdout) || `"${stderr}"`), { success: true })
    assert.equal((await owner.saveSession(makeSession('s'))).code, 'WAYMARK_LEASE_LOST')
    await assert.rejects(lease.renew(), isLost)
  })
})

describe('a write that is refused for want of a lease', () => {
  const writes = {
    saveSession: ({ other }) => other.saveSession(makeSession('s')),
    'saveSession with ifRevision': ({ other }) => other.saveSession(makeSession('s'), { ifRevision: null }),
    saveTaskTree: ({ other }) => other.saveTaskTree('s', {}),
    saveTaskResult: ({ other }) => other.saveTaskResult('s', 'new', 1),
    createCheckpoint: ({ other }) => other.createCheckpoint(makeSession('s'), OPTIONS),
    'createCheckpoint with ifParent': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, ifParent: null }),
    'createCheckpoint as a delta': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, encoding: 'delta' }),
    'save of an agent': ({ other }) => other.agent('s', 'new').save({ messages: [] }),
    setRetention: ({ other }) => other.setRetention('s', { keepLast: 1 }),
    copyTo: ({ other, from }) => from.copyTo(other),
  }
  for (const [name, write] of Object.entries(writes)) {
    it(`leaves nothing of a session that its owner has not made yet: ${name}`, async () => {
      const world = await ownerAndOther()
      world.from = await openStore()
      await checkpointOf(world.from, makeSession('s'))
      const result = await write(world).catch((error) => error)
      assert.equal(result.code, 'WAYMARK_LEASE_LOST')
      assert.deepEqual(contents(world.place), {})
    })
  }

  it('does not keep the owner from making the session in one step', async () => {
    const { owner, other } = await ownerAndOther()
    const { checkpointId } = await checkpointOf(owner, makeSession('source'))
    assert.equal((await other.saveSession(makeSession('s'))).code, 'WAYMARK_LEASE_LOST')
    const forked = await owner.forkSession({ sessionId: 'source', checkpointId, newSessionId: 's' })
    assert.equal(forked.success, true, forked.error)
  })

  it('does not bring back what the next owner has deleted', async () => {
    const { place, owner, other } = await ownerAndOther()
    await owner.saveSession(makeSession('s'))
    const next = await other.acquireSession('s', { force: true, ...LONG })
    await other.deleteSession('s')
    await next.release()
    for (const write of [owner.saveSession(makeSession('s')), owner.createCheckpoint(makeSession('s'), OPTIONS)]) {
      assert.equal((await write).code, 'WAYMARK_LEASE_LOST')
    }
    assert.deepEqual(contents(place), {})
  })

  const changes = {
    'createCheckpoint as a delta': ({ other }) =>
      other.createCheckpoint(makeSession('s'), { ...OPTIONS, encoding: 'delta' }),
    'recoverSession with quarantine': ({ other }) => other.recoverSession('s', { quarantine: true }),
    'save of a new agent': ({ other }) => other.agent('s', 'new').save({ messages: [] }),
    convert: ({ other }) => other.convert('s', 'json'),
    deleteSessionCheckpoints: ({ other }) => other.deleteSessionCheckpoints('s'),
    prune: async ({ other }) => (await other.prune()).failed[0],
    importSession: ({ other, archive }) => other.importSession(archive, { as: 's' }),
  }
  for (const [name, change] of Object.entries(changes)) {
    it(`leaves a session as it is: ${name}`, async () => {
      const world = await ownerAndOther({ keepPrevious: 2 })
      const { place, owner } = world
      for (const version of ['first', 'second']) await owner.saveSession(makeSession('s', { name: version }))
      await checkpointOf(owner, makeSession('s'), { ...OPTIONS, encoding: 'delta' })
      // Left by an interruption: to tidy up is for the owner.
      const directory = join(place, 's', 'checkpoints')
      writeFileSync(join(directory, 'cp-1-000000.key.zst'), 'a key that nothing stands on')
      writeFileSync((await checkpointOf(owner, makeSession('s'))).path, '{"damaged')
      const from = await openStore()
      await checkpointOf(from, makeSession('s'))
      world.archive = join(scratchDirectory(), 's.zst')
      await from.exportSession('s', world.archive)
      const before = contents(place)
      const result = await change(world).catch((error) => error)
      assert.match(result.code, name === 'importSession' ? /LEASE_LOST|EXISTS/ : /LEASE_LOST/)
      assert.deepEqual(contents(place), before)
    })
  }

  it('adds nothing to a key that its former owner made', async () => {
    const { place, owner, other } = await ownerAndOther()
    const context = (step) =>
      Object.fromEntries(
        Array.from({ length: 200 }, (_, key) => [`k${key}`, key < 3 * step ? `new ${step}` : `${key}`]),
      )
    const create = (store, step) =>
      store.createCheckpoint(makeSession('s'), {}, context(step), { ...OPTIONS, encoding: 'delta' })
    for (let step = 0; step < 3; step += 1) assert.equal((await create(owner, step)).success, true)
    await other.acquireSession('s', { force: true, ...LONG })
    const before = contents(place)
    // At one of these, the tip of the key would move on.
    for (let step = 3; step < 7; step += 1) assert.equal((await create(owner, step)).code, 'WAYMARK_LEASE_LOST')
    assert.deepEqual(contents(place), before)
  })

  for (const name of durablePlaces) {
    it(`says so, whatever else is in the way (${name})`, async () => {
      const place = places[name]()
      const [owner, other] = [await openStore(place), await openStore(place)]
      await owner.saveSession(makeSession('s'))
      await checkpointOf(owner, makeSession('s'))
      await owner.acquireSession('s', LONG)
      const session = makeSession('s')
      assert.equal((await other.saveSession(session, { ifRevision: null })).code, 'WAYMARK_LEASE_LOST')
      assert.equal((await other.createCheckpoint(session, { ...OPTIONS, ifParent: null })).code, 'WAYMARK_LEASE_LOST')
    })
  }
})

describe('a record of a lease that cannot be read', () => {
  it('of one session hides from nobody that another was lost', async () => {
    const { place, owner, other, lease } = await ownerAndOther()
    await owner.saveSession(makeSession('t'))
    writeFileSync(join(place, '.leases', 't.json'), 'nonsense')
    await other.acquireSession('s', { force: true, ...LONG })
    await assert.rejects(lease.renew(), isLost)
    assert.deepEqual([lease.isLost, lease.signal.aborted], [true, true])
  })

  it('of one session keeps nobody from the others', async () => {
    const place = places.files()
    const store = await openStore(place)
    for (const id of ['a', 'b', 'c']) await store.saveSession(makeSession(id, { status: 'active' }))
    const lease = await store.acquireSession('c', { owner: 'me', ...LONG })
    writeFileSync(join(place, '.leases', 'a.json'), 'nonsense')
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
  it('never claims to last for longer than it does', async () => {
    const store = await open()
    const before = Date.now()
    const acquiring = store.acquireSession('s', { ttlMs: 5000 })
    standStill(300)
    const lease = await acquiring
    assert.ok(lease.expiresAt - before <= 5200, `${lease.expiresAt - before} ms, of 5000`)
    const renewedAt = Date.now()
    const renewing = lease.renew()
    standStill(300)
    await renewing
    assert.ok(lease.expiresAt - renewedAt <= 5200, `${lease.expiresAt - renewedAt} ms, of 5000`)
    await lease.release()
  })

  it('can be given back when the first attempt failed', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', LONG)
    await store.close()
    await assert.rejects(lease.release(), { code: 'WAYMARK_CLOSED' })
    await store.initialize()
    await lease.release()
    await (await store.acquireSession('s')).release()
  })

  it('past its time stays with its owner, who deletes the session and makes it again', async () => {
    const store = await open()
    const lease = await store.acquireSession('s', { ttlMs: 50 })
    await store.saveSession(makeSession('s'))
    standStill(120)
    const deleting = store.deleteSession('s')
    // Nobody renews it before that is done.
    standStill(200)
    assert.equal((await deleting).success, true)
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    await lease.renew()
    assert.equal(lease.isLost, false)
    await lease.release()
  })

  it('is renewed before all that its owner has asked for is done', async () => {
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

for (const name of durablePlaces) {
  it(`who has lost a lease is not told that the session was deleted when it was not (${name})`, async () => {
    const place = places[name]()
    const [first, second] = [await openStore(place), await openStore(place)]
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

describe('ifParent', () => {
  /** A store whose newest checkpoint has a name that somebody else gave it, and a time that is ahead by so much. */
  async function withForeign(aheadMs, options) {
    const place = places.files()
    const store = await openStore(place, options)
    const { path, checkpointId } = await checkpointOf(store, makeSession('s'))
    const foreign = join(place, 's', 'checkpoints', 'zz-foreign.json')
    writeFileSync(foreign, readFileSync(path, 'utf8').replaceAll(checkpointId, 'zz-foreign'))
    const time = new Date(Date.now() + aheadMs)
    utimesSync(foreign, time, time)
    return store
  }

  it('of a foreign name that is ahead of the clock is followed by the newest', async () => {
    const store = await withForeign(3_600_000)
    let parent = 'zz-foreign'
    for (let step = 0; step < 3; step += 1) {
      const { success, error, checkpointId } = await store.createCheckpoint(makeSession('s'), {
        ...OPTIONS,
        ifParent: parent,
      })
      assert.equal(success, true, error)
      assert.equal((await store.getLatestCheckpoint('s')).id, checkpointId)
      parent = checkpointId
    }
  })

  it('of a foreign name that is ahead of the clock is not what stays when one is kept', async () => {
    const store = await withForeign(3_600_000, { retention: { keepLast: 1 } })
    const { checkpointId } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, ifParent: 'zz-foreign' })
    assert.deepEqual(
      (await store.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
      [checkpointId],
    )
  })
})

describe('a page of a list', () => {
  it('is full however many checkpoints on the way are damaged, and the last one has no cursor', async () => {
    const store = await openStore()
    const ids = []
    for (let number = 0; number < 10; number += 1) {
      const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
      ids.unshift(checkpointId)
      if ([9, 8, 6, 3, 0].includes(number)) writeFileSync(path, '{"damaged')
    }
    for (const limit of [1, 2, 3, 4, 5, 9, 10, 11]) {
      const [seen, sizes] = [[], []]
      let cursor
      do {
        const page = await store.listCheckpointInfo('s', { limit, cursor })
        seen.push(...page.checkpoints.map(({ id }) => id), ...page.damaged.map(({ id }) => id))
        sizes.push(page.checkpoints.length)
        cursor = page.cursor
        assert.equal(page.total, 10)
      } while (cursor !== undefined)
      assert.deepEqual(seen.toSorted(), ids.toSorted(), `limit ${limit}`)
      for (const size of sizes.slice(0, -1)) assert.equal(size, limit, `pages of ${sizes}, limit ${limit}`)
    }
  })
})

describe('a process that was stopped in the middle of a step', { skip: NO_FLOCK, concurrency: true }, () => {
  /** Two stores, a session that the first one owns, and somebody who holds the lock of its lease. */
  async function stopped() {
    const world = await ownerAndOther({ timeoutMs: 300 })
    await world.owner.saveSession(makeSession('s', { status: 'active' }))
    return { ...world, letGo: await hold(join(world.place, '.leases', LOCK_OF_S)) }
  }

  it('hangs no writer and no close', async () => {
    const { owner, letGo } = await stopped()
    const { success, code, cause } = await owner.saveSession(makeSession('s'))
    assert.deepEqual([success, code, cause.code], [false, 'WAYMARK_BUSY', 'EBUSY'])
    await owner.close()
    await letGo()
  })

  it('is waited for by those who wait for the session', async () => {
    const { owner, other, lease, letGo } = await stopped()
    const waiting = other.acquireSession('s', { owner: 'patient', waitMs: 60_000 })
    // Longer than a single attempt takes.
    assert.ok(await isUnderWay(waiting, 1000))
    await letGo()
    await lease.release()
    assert.equal((await waiting).owner, 'patient')
    await owner.close()
  })

  it('keeps nobody from the sessions that come after its own', async () => {
    const { place, owner, other, lease, letGo } = await stopped()
    await owner.saveSession(makeSession('z', { status: 'active' }))
    const record = join(place, '.leases', 's.json')
    // As it looks when its time is over.
    writeFileSync(`${record}.new`, JSON.stringify({ number: lease.number, owner: lease.owner, expiresAt: 1 }))
    renameSync(`${record}.new`, record)
    const next = await other.acquireNext(LONG)
    assert.equal(next.sessionId, 'z')
    await letGo()
    await next.release()
  })
})
