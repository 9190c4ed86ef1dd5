import assert from 'node:assert/strict'
import {
  existsSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { DAY, createCheckpointsAt, idAt } from '../support/past-checkpoints.mjs'
import { killNode, runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  OPTIONS,
  backends,
  checkpointIdsOf,
  checkpointOf,
  durableBackends,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

const NOON = Date.UTC(2024, 4, 20, 12, 30)

const EVERYTHING = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }

/** Creates checkpoints of a session; oldest first. */
async function several(store, count, sessionId = 's', options = OPTIONS) {
  const ids = []
  while (ids.length < count) {
    ids.push((await checkpointOf(store, makeSession(sessionId), options)).checkpointId)
  }
  return ids
}

const idsOf = ({ removed }) => removed.map(({ checkpointId }) => checkpointId)

const reasonsOf = ({ removed }) => removed.map(({ reason }) => reason)

onEveryBackend('prune', (open) => {
  it('removes the oldest first and reports id, size, time and reason', async () => {
    const store = await open()
    const ids = await createCheckpointsAt(store, [{ time: NOON }, { time: NOON + 1 }, { time: NOON + 2 }])
    await store.setRetention('s', { keepLast: 1 })
    const { checkpoints } = await store.listCheckpointInfo('s')
    const result = await store.prune('s')
    assert.deepEqual(result, {
      dryRun: false,
      removed: [0, 1].map((number) => ({
        sessionId: 's',
        checkpointId: ids[number],
        timestamp: NOON + number,
        sizeBytes: checkpoints[2 - number].sizeBytes,
        reason: 'not the last one',
      })),
      kept: 1,
      freedBytes: checkpoints[1].sizeBytes + checkpoints[2].sizeBytes,
      failed: [],
    })
    assert.deepEqual(await checkpointIdsOf(store), [ids[2]])
    assert.deepEqual(await store.prune('s'), { dryRun: false, removed: [], kept: 1, freedBytes: 0, failed: [] })
  })

  it('with dryRun reports what it would remove and changes nothing', async () => {
    const store = await open({ retention: { keepLast: 2 } })
    await createCheckpointsAt(store, [
      { time: NOON },
      { time: NOON + 1, label: 'kept' },
      { time: NOON + 2 },
      { time: NOON + 3 },
    ])
    const before = await store.listCheckpoints('s')
    const planned = await store.prune('s', { dryRun: true })
    assert.deepEqual(await store.prune({ dryRun: true }), planned)
    assert.deepEqual(await store.prune(undefined, { dryRun: true }), planned)
    assert.deepEqual(await store.listCheckpoints('s'), before)
    assert.deepEqual([planned.dryRun, planned.removed.length, planned.kept], [true, 1, 3])
    assert.deepEqual(await store.prune('s'), { ...planned, dryRun: false })
  })

  it('gives a reason for each removed checkpoint', async () => {
    const store = await open(EVERYTHING)
    const now = Date.now()
    const ids = await createCheckpointsAt(store, [
      { time: now - 3 * DAY },
      { time: now - 2 * DAY },
      { time: now - DAY },
      // Always a different day than the previous one.
      { time: now },
    ])
    const dry = async (retention) => store.prune('s', { dryRun: true, retention })
    assert.deepEqual(reasonsOf(await dry({ keepLast: 2, keepHourly: 3, keepDaily: 3 })), [
      'not among the last 2, nor the newest of one of the last 3 hours, nor the newest of one of the last 3 days',
    ])
    assert.deepEqual(reasonsOf(await dry({ maxAgeMs: 1.5 * DAY })), Array(2).fill(`older than maxAgeMs (${1.5 * DAY})`))
    assert.deepEqual(reasonsOf(await dry({ maxBytes: 7000, keepLast: 3 })).slice(0, 2), [
      'not among the last 3',
      'beyond maxBytes (7000)',
    ])
    assert.deepEqual(await checkpointIdsOf(store), ids.toReversed())
  })

  it('applies maxCheckpointsPerSession if there is no retention', async () => {
    const store = await open({ maxCheckpointsPerSession: 2 })
    const ids = await createCheckpointsAt(store, [{ time: NOON, label: 'old' }, { time: NOON + 1 }, { time: NOON + 2 }])
    const result = await store.prune('s')
    assert.deepEqual([idsOf(result), reasonsOf(result)], [[ids[0]], ['beyond maxCheckpointsPerSession (2)']])
    const plain = await open()
    await createCheckpointsAt(
      plain,
      Array.from({ length: 102 }, (_, index) => ({ time: NOON + index })),
    )
    assert.deepEqual([(await plain.prune()).removed.length, (await checkpointIdsOf(plain)).length], [2, 100])
  })

  it('applies maxCheckpointsPerAgent to agents, whatever the retention', async () => {
    const all = await open(EVERYTHING)
    for (let iteration = 0; iteration < 3; iteration += 1) {
      await all.agent('s', 'a').save({ iteration, label: 'counts for nothing here' })
      await all.agent('s', 'b').save({ iteration })
    }
    const store = await open({ maxCheckpointsPerAgent: 2 })
    await all.copyTo(store)
    const { removed, kept, failed } = await store.prune({ retention: { keepLast: 50 } })
    assert.deepEqual(
      removed.map(({ sessionId, agentId, reason }) => [sessionId, agentId, reason]),
      ['a', 'b'].map((agent) => ['s', agent, 'beyond maxCheckpointsPerAgent (2)']),
    )
    assert.deepEqual([kept, failed], [4, []])
    assert.ok(removed.every(({ sizeBytes }) => sizeBytes > 0))
    assert.equal((await store.agent('s', 'a').latest()).iteration, 2)
  })

  it('goes through all sessions, each with its own retention or that of the store', async () => {
    const store = await open({ retention: { keepLast: 2 } })
    const times = [{ time: NOON }, { time: NOON + 1 }, { time: NOON + 2 }]
    for (const id of ['a', 'b', 'c']) await createCheckpointsAt(store, times, id)
    await store.setRetention('b', { keepLast: 1 })
    await store.setRetention('c', {})
    await store.saveSession(makeSession('d'))
    const { removed, kept } = await store.prune()
    assert.deepEqual(
      removed.map(({ sessionId }) => sessionId),
      ['a', 'b', 'b'],
    )
    assert.equal(kept, 6)
    assert.equal((await store.prune({ retention: { keepLast: 1 } })).removed.length, 3)
    assert.deepEqual((await store.prune('d')).kept, 0)
  })

  it('rejects an unknown session and removes nothing in an empty store', async () => {
    const store = await open()
    await assert.rejects(store.prune('unknown'), { code: 'WAYMARK_NOT_FOUND', message: 'Session not found: unknown' })
    assert.deepEqual(await store.prune(), { dryRun: false, removed: [], kept: 0, freedBytes: 0, failed: [] })
    assert.equal(await store.getRetention('unknown'), null)
  })

  it('keeps pinned and labelled checkpoints and the newest, and drops labels of removed ones', async () => {
    const store = await open(EVERYTHING)
    const ids = await several(store, 6)
    await store.pinCheckpoint('s', ids[0])
    await store.labelCheckpoint('s', ids[1], 'kept')
    await store.labelCheckpoint('s', ids[2], 'gone')
    await store.labelCheckpoint('s', ids[2], null)
    const result = await store.prune('s', { retention: { keepLast: 1 } })
    assert.deepEqual(idsOf(result), ids.slice(2, 5))
    assert.deepEqual(await checkpointIdsOf(store), [ids[5], ids[1], ids[0]])
    assert.equal((await store.prune('s', { retention: { keepLast: 1, keepLabelled: false } })).removed.length, 1)
    assert.equal(await store.getCheckpointByLabel('s', 'kept'), null)
    assert.equal((await store.verifySession('s')).whole, true)
  })

  it('reports the bytes by which the session shrinks', async () => {
    const store = await open(EVERYTHING)
    await several(store, 4, 's', { ...OPTIONS, compress: true })
    await several(store, 4)
    const before = (await store.getSessionStorageStats('s')).totalSizeBytes
    const { freedBytes } = await store.prune('s', { retention: { keepLast: 3 } })
    assert.ok(freedBytes > 0)
    assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, before - freedBytes)
  })

  it('removes a base with its last delta and includes it in dryRun', async () => {
    const store = await open({ ...EVERYTHING, encoding: 'delta' })
    const session = makeSession('s')
    const different = () => ({ text: Array.from({ length: 400 }, () => Math.random().toString(36)).join(' ') })
    for (let key = 0; key < 3; key += 1) {
      session.metadata = different()
      for (let number = 0; number < 4; number += 1) await checkpointOf(store, session)
    }
    const sizeOf = async () => (await store.getSessionStorageStats('s')).totalSizeBytes
    const before = await sizeOf()
    const dry = await store.prune('s', { retention: { keepLast: 2 }, dryRun: true })
    const wet = await store.prune('s', { retention: { keepLast: 2 } })
    assert.deepEqual({ ...wet, dryRun: true }, dry)
    assert.equal(before - (await sizeOf()), wet.freedBytes)
    assert.ok(wet.freedBytes > before / 2, `${wet.freedBytes} of ${before}`)
    assert.equal((await store.verifySession('s')).whole, true)
    const most = (await sizeOf()) * 3
    for (let number = 0; number < 9; number += 1) {
      session.metadata = different()
      await checkpointOf(store, session)
    }
    await store.prune('s', { retention: { maxBytes: most } })
    assert.ok((await sizeOf()) <= most)
    assert.ok((await store.listCheckpointInfo('s')).total > 1)
  })

  it('may run beside itself and writers: each checkpoint is reported once', async () => {
    const store = await open(EVERYTHING)
    await several(store, 30)
    const retention = { keepLast: 5 }
    const [one, two, three] = await Promise.all([
      store.prune('s', { retention }),
      store.prune('s', { retention }),
      store.prune({ retention }),
      several(store, 5),
    ])
    const ids = [one, two, three].flatMap(idsOf)
    assert.equal(new Set(ids).size, ids.length)
    assert.deepEqual([...one.failed, ...two.failed, ...three.failed], [])
    await store.prune('s', { retention })
    assert.equal((await checkpointIdsOf(store)).length, 5)
  })

  it('leaves ids and lists usable for the next checkpoints', async () => {
    const store = await open(EVERYTHING)
    await several(store, 5)
    await store.prune('s', { retention: { keepLast: 1 } })
    const [next] = await several(store, 1)
    assert.equal((await store.getLatestCheckpoint('s')).id, next)
    assert.equal((await store.listCheckpoints('s')).total, 2)
  })
})

describe('prune (files)', () => {
  it('leaves no file behind and updates the link to the newest', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, EVERYTHING)
    const ids = await several(store, 5)
    const { freedBytes } = await store.prune('s', { retention: { keepLast: 2 } })
    assert.ok(freedBytes > 0)
    const directory = join(base, 's', 'checkpoints')
    const names = readdirSync(directory).filter((name) => name !== '.names')
    assert.deepEqual(
      names.toSorted(),
      ids.slice(3).map((id) => `${id}.json`),
    )
    if (process.platform !== 'win32') {
      assert.equal(readlinkSync(join(base, 's', 'latest')), `checkpoints/${ids[4]}.json`)
    }
  })

  it('changes no byte with dryRun', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, EVERYTHING)
    await several(store, 5)
    await store.agent('s', 'a').save({ iteration: 1 })
    const before = snapshotOf(base)
    await store.prune({ dryRun: true, retention: { keepLast: 1, maxBytes: 1, maxAgeMs: 1 } })
    assert.deepEqual(snapshotOf(base), before)
  })

  it('removes foreign files by their file time', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, EVERYTHING)
    const [id] = await several(store, 1)
    const path = join(base, 's', 'checkpoints', `${id}.json`)
    const foreign = JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), id: 'theirs' }, null, '\t')
    const theirs = join(base, 's', 'checkpoints', 'theirs.json')
    writeFileSync(theirs, foreign)
    unlinkSync(path)
    utimesSync(theirs, 1000, 1000)
    const [newest] = await several(store, 1)
    const { removed } = await store.prune('s', { retention: { keepLast: 1 } })
    assert.deepEqual(
      removed.map(({ checkpointId, sizeBytes, timestamp }) => [checkpointId, sizeBytes, timestamp]),
      [['theirs', Buffer.byteLength(foreign), 1_000_000]],
    )
    assert.deepEqual(await checkpointIdsOf(store), [newest])
  })

  it('keeps a checkpoint that another process pinned', async () => {
    const base = scratchDirectory()
    const [store, other] = [await openStore(base, EVERYTHING), await openStore(base, EVERYTHING)]
    const ids = await several(store, 3)
    await other.pinCheckpoint('s', ids[0])
    assert.deepEqual(idsOf(await store.prune('s', { retention: { keepLast: 1 } })), [ids[1]])
  })
})

for (const kind of durableBackends) {
  const newLocation = backends[kind]
  const program = (location, work) => `
    const store = new CheckpointStore(${JSON.stringify(location)}, { maxCheckpointsPerSession: Infinity })
    await store.initialize()
    ${work}
  `

  describe(`prune in several processes (${kind})`, () => {
    it('removes each checkpoint once when two prune the same session', async () => {
      const location = newLocation()
      const store = await openStore(location, { ...EVERYTHING, durability: 'relaxed' })
      const ids = await several(store, 100)
      const source = program(
        location,
        `const { removed, failed } = await store.prune('s', { retention: { keepLast: 10 } })
        console.log(JSON.stringify([failed, ...removed.map(({ checkpointId }) => checkpointId)]))`,
      )
      const runs = await Promise.all([runNode(source), runNode(source), runNode(source)])
      const told = runs.map(({ stdout, stderr }) => {
        assert.equal(stderr, '')
        const [failed, ...removed] = JSON.parse(stdout)
        assert.deepEqual(failed, [])
        return removed
      })
      assert.deepEqual(told.flat().toSorted(), ids.slice(0, 90))
      assert.deepEqual(await checkpointIdsOf(store), ids.slice(90).toReversed())
    })

    it('is completed by another process after a kill', async () => {
      const location = newLocation()
      const store = await openStore(location, { ...EVERYTHING, durability: 'relaxed' })
      const ids = await several(store, 600)
      await store.labelCheckpoint('s', ids[3], 'kept')
      await store.close()
      // Polls while the prune runs and reports when it has begun.
      const source = program(
        location,
        `const working = store.prune('s', { retention: { keepLast: 2 } })
        const left = async () => (await store.listCheckpointInfo('s', { limit: 1 })).total
        while ((await left()) > 590);
        console.log('in the middle')
        await working
        setInterval(() => {}, 1000)`,
      )
      await killNode(source, { afterLines: 1 })
      const again = await openStore(location, EVERYTHING)
      const left = new Set(await checkpointIdsOf(again))
      const gone = ids.filter((id) => !left.has(id))
      assert.ok(gone.length > 0)
      // The oldest checkpoints were removed first.
      assert.deepEqual(gone, ids.filter((id) => id !== ids[3]).slice(0, gone.length))
      assert.equal((await again.verifySession('s')).whole, true)
      const { removed, failed, kept } = await again.prune('s', { retention: { keepLast: 2 } })
      assert.deepEqual([removed.length, failed, kept], [597 - gone.length, [], 3])
      assert.deepEqual(await checkpointIdsOf(again), [ids[599], ids[598], ids[3]])
      assert.equal((await again.verifySession('s')).whole, true)
    })
  })
}

describe('prune (sqlite)', () => {
  it('returns space to the file system', async () => {
    const file = join(scratchDirectory(), 'store.db')
    const store = await openStore(`sqlite:${file}`, EVERYTHING)
    const session = makeSession('s', { description: 'x'.repeat(200_000) })
    for (let number = 0; number < 20; number += 1) await checkpointOf(store, session)
    await several(store, 1)
    const { freedBytes } = await store.prune({ retention: { keepLast: 1 } })
    assert.ok(freedBytes > 20 * 200_000)
    const size = statSync(file).size + (existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0)
    assert.ok(size < 300_000, `${size} bytes are left`)
  })

  it('accepts the checkpoint ids that a directory has', async () => {
    const store = await openStore(`sqlite:${join(scratchDirectory(), 'store.db')}`)
    await createCheckpointsAt(store, [{ time: NOON, number: 35 }])
    assert.deepEqual(await checkpointIdsOf(store), [idAt(NOON, 35)])
  })
})
