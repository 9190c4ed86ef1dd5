import assert from 'node:assert/strict'
import { appendFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { emptyStore } from '../support/invalid-values.mjs'
import { checkpointFiles } from '../support/original-format.mjs'
import { DAY, HOUR, MINUTE, createCheckpointsAt, idAt } from '../support/past-checkpoints.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  CheckpointStore,
  OPTIONS,
  checkpointIdsOf,
  checkpointOf,
  newCheckpointIds,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

/** Creates a checkpoint of session `s` without warnings; resolves to its id. */
async function made(store, options = {}) {
  const result = await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })
  assert.equal(result.warnings, undefined)
  return result.checkpointId
}

/** Creates checkpoints; oldest first. */
async function several(store, count, options = {}) {
  const ids = []
  while (ids.length < count) ids.push(await made(store, options))
  return ids
}

const newestFirst = (ids) => ids.toReversed()

/** The middle of a past hour. */
const NOON = Date.UTC(2024, 4, 20, 12, 30)

onEveryBackend('retention', (open) => {
  it('keepLast keeps the newest', async () => {
    const store = await open({ retention: { keepLast: 3 } })
    const ids = await several(store, 7)
    assert.deepEqual(await checkpointIdsOf(store), newestFirst(ids.slice(-3)))
    await several(store, 2, { compress: true })
    assert.equal((await checkpointIdsOf(store)).length, 3)
  })

  it('that is empty keeps everything, also more than 100', async () => {
    const times = Array.from({ length: 120 }, (_, index) => ({ time: NOON + index }))
    const all = await open({ retention: {}, durability: 'relaxed' })
    const without = await open({ durability: 'relaxed' })
    for (const store of [all, without]) {
      await createCheckpointsAt(store, times)
      await made(store)
    }
    assert.equal((await checkpointIdsOf(all)).length, 121)
    assert.equal((await checkpointIdsOf(without)).length, 100)
  })

  it('never removes or counts a pinned checkpoint', async () => {
    const store = await open({ retention: { keepLast: 2 } })
    const [pinned] = await several(store, 1)
    await store.pinCheckpoint('s', pinned)
    const ids = await several(store, 4)
    assert.deepEqual(await checkpointIdsOf(store), [...newestFirst(ids.slice(-2)), pinned])
    await store.unpinCheckpoint('s', pinned)
    await made(store)
    assert.equal((await checkpointIdsOf(store)).length, 2)
  })

  for (const compress of [false, true]) {
    it(`keeps labelled checkpoints, labelled at creation or later, ${compress ? 'compressed' : 'plain'}`, async () => {
      const store = await open({ retention: { keepLast: 2 } })
      const born = await made(store, { label: 'born', compress })
      const given = await made(store, { compress })
      await store.labelCheckpoint('s', given, 'given')
      const taken = await made(store, { label: 'taken away', compress })
      await store.labelCheckpoint('s', taken, null)
      const ids = await several(store, 4, { compress })
      assert.deepEqual(await checkpointIdsOf(store), [...newestFirst(ids.slice(-2)), given, born])
      await store.labelCheckpoint('s', born, null)
      await made(store, { compress })
      assert.equal((await checkpointIdsOf(store)).at(-1), given)
    })
  }

  it('finds the label of a checkpoint with a long description', async () => {
    const store = await open({ retention: { keepLast: 1 } })
    const id = await made(store, { label: 'kept', description: 'long '.repeat(2000) })
    const ids = await several(store, 3)
    assert.deepEqual(await checkpointIdsOf(store), [ids.at(-1), id])
  })

  it('removes labelled checkpoints if it says so', async () => {
    const store = await open({ retention: { keepLast: 2, keepLabelled: false } })
    const ids = await several(store, 5, { label: 'release' })
    assert.deepEqual(await checkpointIdsOf(store), newestFirst(ids.slice(-2)))
  })

  it('keeps the newest of each hour and day, and what any of the three rules keeps', async () => {
    const store = await open({ retention: { keepLast: 1, keepHourly: 2, keepDaily: 3 } })
    const midnight = Date.UTC(2024, 4, 20)
    const ids = await createCheckpointsAt(store, [
      { time: midnight - 3 * DAY }, // 0: of a fourth day
      { time: midnight - DAY - 1 }, // 1: the last moment of a third day
      { time: midnight - HOUR - 1 }, // 2: of a third hour
      { time: midnight - 1 }, // 3: the last moment of a second day, and of a second hour
      { time: midnight }, // 4: the first moment of the next day
      { time: midnight + MINUTE }, // 5
    ])
    await store.prune('s')
    assert.deepEqual(await checkpointIdsOf(store), [ids[5], ids[3], ids[1]])
    const now = await made(store)
    assert.deepEqual(await checkpointIdsOf(store), [now, ids[5], ids[3]])
  })

  it('keeps the newer of two within one hour, also at equal times', async () => {
    const store = await open({ retention: { keepHourly: 5 } })
    const ids = await createCheckpointsAt(store, [
      { time: NOON - HOUR, number: 1 },
      { time: NOON - HOUR, number: 2 },
      { time: NOON },
      { time: NOON + MINUTE },
    ])
    const now = await made(store)
    assert.deepEqual(await checkpointIdsOf(store), [now, ids[3], ids[1]])
  })

  it('maxAge removes older checkpoints but not the newest', async () => {
    const store = await open({ retention: { maxAgeMs: HOUR } })
    const now = Date.now()
    const ids = await createCheckpointsAt(store, [
      { time: now - 3 * HOUR },
      { time: now - 2 * HOUR },
      { time: now - 30 * MINUTE },
    ])
    const newest = await made(store)
    assert.deepEqual(await checkpointIdsOf(store), [newest, ids[2]])
    const old = await open({ retention: { maxAgeMs: 1 } })
    const [, last] = await createCheckpointsAt(old, [{ time: 1000 }, { time: 2000 }])
    assert.equal((await old.prune('s')).removed.length, 1)
    assert.deepEqual(await checkpointIdsOf(old), [last])
  })

  it('maxBytes removes the oldest first and counts pinned ones', async () => {
    const measure = await open()
    const { sizeBytes } = await checkpointOf(measure, makeSession('s'))
    const store = await open({ retention: { maxBytes: 3 * sizeBytes + 100 } })
    const ids = await several(store, 6)
    assert.deepEqual(await checkpointIdsOf(store), newestFirst(ids.slice(-3)))
    await store.pinCheckpoint('s', ids[3])
    await several(store, 3)
    assert.equal((await checkpointIdsOf(store)).length, 3)
    assert.equal((await checkpointIdsOf(store)).at(-1), ids[3])
    const small = await open({ retention: { maxBytes: 1 } })
    const [, last] = await several(small, 2)
    assert.deepEqual(await checkpointIdsOf(small), [last])
  })

  it('maxBytes counts stored bytes, whichever program stored them', async () => {
    const store = await open({ retention: { maxBytes: 60_000 } })
    const now = Date.now()
    await createCheckpointsAt(store, [
      { time: now - 3 * MINUTE, padding: 20_000 },
      { time: now - 2 * MINUTE, padding: 20_000 },
      { time: now - MINUTE, padding: 20_000 },
    ])
    const ids = await checkpointIdsOf(store)
    const newest = await made(store)
    assert.deepEqual(await checkpointIdsOf(store), [newest, ids[0], ids[1]])
    assert.equal((await store.deleteCheckpoint('s', ids[0])).success, true)
    await several(store, 2)
    assert.equal((await checkpointIdsOf(store)).length, 4)
  })

  it('is limited further by a maxCheckpointsPerSession given with it', async () => {
    const store = await open({ retention: { keepLast: 10 }, maxCheckpointsPerSession: 2 })
    const labelled = await made(store, { label: 'kept' })
    const ids = await several(store, 5)
    assert.deepEqual(await checkpointIdsOf(store), [...newestFirst(ids.slice(-2)), labelled])
    const byHour = await open({ retention: { keepHourly: 10 }, maxCheckpointsPerSession: 2 })
    await createCheckpointsAt(byHour, [{ time: NOON - 2 * HOUR }, { time: NOON - HOUR }, { time: NOON }])
    await made(byHour)
    assert.equal((await checkpointIdsOf(byHour)).length, 2)
  })

  it('does not apply to agents', async () => {
    const store = await open({ retention: { keepLast: 1 }, maxCheckpointsPerAgent: 3 })
    for (let iteration = 0; iteration < 5; iteration += 1) await store.agent('s', 'a').save({ iteration })
    assert.equal((await store.agent('s', 'a').list()).total, 3)
  })

  it('treats a checkpoint from the future as the newest and keeps the one just created', async () => {
    const store = await open({ retention: { keepLast: 1, maxAgeMs: HOUR } })
    const [future] = await createCheckpointsAt(store, [{ time: Date.now() + DAY }])
    const first = await made(store)
    assert.deepEqual(await checkpointIdsOf(store), [first])
    assert.ok(first > future)
  })

  it('of a session replaces that of the store until it is removed', async () => {
    const store = await open({ retention: { keepLast: 1, maxAgeMs: HOUR } })
    assert.equal(await store.getRetention('s'), null)
    assert.equal(await store.setRetention('s', { keepLast: 3 }), undefined)
    assert.deepEqual(await store.getRetention('s'), { keepLast: 3 })
    await createCheckpointsAt(store, [{ time: Date.now() - 2 * HOUR }])
    await several(store, 2)
    assert.equal((await checkpointIdsOf(store)).length, 3)
    await checkpointOf(store, makeSession('other'))
    await checkpointOf(store, makeSession('other'))
    assert.equal((await checkpointIdsOf(store, 'other')).length, 1)
    await store.setRetention('s', null)
    assert.equal(await store.getRetention('s'), null)
    await made(store)
    assert.equal((await checkpointIdsOf(store)).length, 1)
    await store.setRetention('s', null)
    await store.setRetention('unknown', null)
    assert.equal(await store.getRetention('unknown'), null)
  })

  it('of a session replaces the default of 100, but not a given maxCheckpointsPerSession', async () => {
    const times = Array.from({ length: 101 }, (_, index) => ({ time: NOON + index }))
    const store = await open({ durability: 'relaxed' })
    await store.setRetention('s', {})
    await createCheckpointsAt(store, times)
    await made(store)
    assert.equal((await checkpointIdsOf(store)).length, 102)
    const limited = await open({ durability: 'relaxed', maxCheckpointsPerSession: 5 })
    await limited.setRetention('s', { keepLast: 50 })
    await createCheckpointsAt(limited, times)
    await made(limited)
    assert.equal((await checkpointIdsOf(limited)).length, 5)
  })

  it('of a session is returned as it was set', async () => {
    const store = await open()
    const all = {
      keepLast: 0,
      keepHourly: 24,
      keepDaily: 7,
      maxAgeMs: Number.MAX_SAFE_INTEGER,
      maxBytes: 1,
      keepLabelled: false,
    }
    for (const retention of [{}, { keepLabelled: true }, { maxBytes: 5 }, all]) {
      await store.setRetention('s', retention)
      assert.deepEqual(await store.getRetention('s'), retention)
    }
    await store.setRetention('s', { keepLast: undefined, keepDaily: 1 })
    assert.deepEqual(await store.getRetention('s'), { keepDaily: 1 })
  })

  it('of a session is copied, verified and deleted with it, and not inherited by a fork', async () => {
    const store = await open()
    const other = await open()
    await store.setRetention('s', { keepDaily: 9 })
    const checkpointId = await made(store)
    const { documents } = await store.copyTo(other)
    assert.equal(documents, 1)
    assert.deepEqual(await other.getRetention('s'), { keepDaily: 9 })
    const { whole, files } = await store.verifySession('s')
    assert.equal(whole, true)
    assert.ok(files.some(({ path }) => path.endsWith('retention.json')))
    await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
    assert.equal(await store.getRetention('fork'), null)
    await store.deleteSession('s')
    assert.equal(await store.getRetention('s'), null)
  })

  it('of a session does not make it a listed session', async () => {
    const store = await open()
    await store.setRetention('s', { keepLast: 1 })
    assert.deepEqual(await store.listSessions(), [])
    assert.deepEqual(await store.sessionsInfo(), [])
    assert.deepEqual(await store.recoverable(), [])
  })
})

describe('retention (files)', () => {
  it('is stored in the layout of other documents, for the owner only', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.setRetention('s', { maxBytes: 10, keepLast: 3, keepLabelled: false })
    const path = join(base, 's', 'retention.json')
    assert.equal(
      readFileSync(path, 'utf8'),
      JSON.stringify({ keepLast: 3, maxBytes: 10, keepLabelled: false }, null, 2),
    )
    if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o600)
    await store.setRetention('s', null)
    assert.throws(() => statSync(path), { code: 'ENOENT' })
  })

  it('set by another process applies at once', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await several(store, 4)
    const { code } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      await store.setRetention('s', { keepLast: 2 })
    `)
    assert.equal(code, 0)
    await made(store)
    assert.equal((await checkpointIdsOf(store)).length, 2)
  })

  const damages = {
    'no JSON': '{"keepLast": 1',
    'no object': '[1]',
    'a member that is not known': '{"keepWeekly": 4}',
    'a number that is none': '{"keepLast": "1"}',
    'nothing to keep': '{"keepLast": 0}',
    empty: '',
  }
  for (const [what, text] of Object.entries(damages)) {
    it(`that is damaged (${what}) removes nothing, fails no checkpoint, and is reported`, async () => {
      const base = scratchDirectory()
      const store = await openStore(base, { maxCheckpointsPerSession: 2 })
      await several(store, 2)
      const path = join(base, 's', 'retention.json')
      writeFileSync(path, text)
      const result = await checkpointOf(store, makeSession('s'))
      assert.equal(result.warnings.length, 1)
      assert.ok(
        result.warnings[0].startsWith(`Old checkpoints were not removed: ${path} is damaged: `),
        result.warnings[0],
      )
      assert.equal((await checkpointIdsOf(store)).length, 3)
      const damaged = { code: 'WAYMARK_CORRUPT', message: new RegExp(`retention\\.json is damaged: `) }
      await assert.rejects(store.getRetention('s'), damaged)
      await assert.rejects(store.prune('s'), damaged)
      await checkpointOf(store, makeSession('other'))
      const all = await store.prune()
      assert.deepEqual(
        all.failed.map(({ sessionId, code }) => [sessionId, code]),
        [['s', 'WAYMARK_CORRUPT']],
      )
      assert.equal(all.kept, 4)
      const report = (await store.verifySession('s')).files.find((file) => file.path === path)
      assert.equal(report.code, 'WAYMARK_CORRUPT')
      assert.equal((await store.prune('s', { retention: { keepLast: 2 } })).removed.length, 1)
      await store.setRetention('s', { keepLast: 1 })
      assert.equal((await store.prune('s')).removed.length, 1)
    })
  }

  it('keeps checkpoints that may be labelled when the labels cannot be read', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { retention: { keepLast: 1 } })
    const labelled = await made(store)
    await store.labelCheckpoint('s', labelled, 'kept')
    const labels = join(base, 's', 'labels.json')
    writeFileSync(labels, '{"cut off')
    const before = (await checkpointOf(store, makeSession('s'))).warnings
    assert.equal(before.length, 1)
    assert.match(before[0], /^Old checkpoints were not removed: .*labels\.json is damaged: /)
    const { removed, failed, kept } = await store.prune('s')
    assert.deepEqual([removed, kept], [[], 2])
    assert.match(failed[0].error, /labels\.json/)
    assert.equal(failed[0].sessionId, 's')
    rmSync(labels)
    await made(store)
    assert.equal((await checkpointIdsOf(store)).length, 1)
  })

  it('removes damaged checkpoints in their turn and reports what it could not remove', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { retention: { keepLast: 1 } })
    const directory = join(base, 's', 'checkpoints')
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, `${idAt(1000)}.json`), '{"cut off')
    mkdirSync(join(directory, `${idAt(2000)}.json`))
    const { warnings } = await checkpointOf(store, makeSession('s'))
    assert.equal(warnings.length, 1)
    assert.match(warnings[0], /^An old checkpoint was not removed: /)
    const { removed, failed } = await store.prune('s')
    assert.deepEqual(removed, [])
    assert.deepEqual(
      failed.map(({ sessionId, checkpointId }) => [sessionId, checkpointId]),
      [['s', idAt(2000)]],
    )
  })
})

const NOT_RETENTIONS = [undefined, 5, 'keepLast', true, [], [5], () => {}, Symbol('s'), 10n, new Map(), new Set()]

const WRONG = [
  [{ keepWeekly: 1 }, /has an unknown member "keepWeekly"\. The known members are keepLast, keepHourly, keepDaily, /],
  [{ keeplast: 1 }, /has an unknown member "keeplast"/],
  [{ keepLast: 1.5 }, /\.keepLast must be a whole number from 0 to 9007199254740991; got 1\.5$/],
  [{ keepLast: -1 }, /got -1$/],
  [{ keepHourly: Number.NaN }, /\.keepHourly must be .* got NaN$/],
  [{ keepDaily: '7' }, /\.keepDaily must be .* got "7"$/],
  [{ keepDaily: null }, /\.keepDaily must be .* got null$/],
  [{ maxBytes: 2 ** 53 }, /\.maxBytes must be .* got 9007199254740992$/],
  [{ maxBytes: 10n }, /\.maxBytes must be .* got a BigInt$/],
  [{ keepLast: Infinity }, /\.keepLast must be a whole number; got Infinity\. Leave it out for no limit$/],
  [{ maxAgeMs: Infinity }, /got Infinity\. Leave it out/],
  [{ maxAgeMs: -Infinity }, /got -Infinity$/],
  [{ keepLabelled: 'yes' }, /\.keepLabelled must be true or false; got "yes"$/],
  [{ keepLabelled: null }, /\.keepLabelled must be true or false; got null$/],
  [{ keepLast: 0 }, /must keep something: one of keepLast, keepHourly and keepDaily has to be at least 1$/],
  [{ keepLast: 0, keepHourly: 0, keepDaily: 0, maxBytes: 5 }, /must keep something/],
  [{ maxAgeMs: 0 }, /must keep something: maxAgeMs has to be at least 1$/],
  [{ keepLast: 5, maxBytes: 0 }, /must keep something: maxBytes has to be at least 1$/],
]

describe('an invalid retention', () => {
  it('is rejected by the constructor', () => {
    for (const retention of [...NOT_RETENTIONS.slice(1), null]) {
      assert.throws(() => new CheckpointStore('memory:', { retention }), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options\.retention must be an object; got /,
      })
    }
    for (const [retention, message] of WRONG) {
      assert.throws(() => new CheckpointStore('memory:', { retention }), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
    assert.ok(new CheckpointStore('memory:', { retention: undefined }))
  })

  it('is rejected for a session and nothing is written', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const retention of NOT_RETENTIONS) {
      await assert.rejects(store.setRetention('s', retention), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^retention must be an object(, or null)?; got /,
      })
    }
    for (const [retention, message] of WRONG) {
      await assert.rejects(store.setRetention('s', retention), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
    const trap = {
      get keepLast() {
        throw new Error('no entry')
      },
    }
    await assert.rejects(store.setRetention('s', trap), { code: 'WAYMARK_NOT_SERIALIZABLE' })
    isUntouched()
  })

  it('is rejected by prune, as are unknown options', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await several(store, 3)
    const before = snapshotOf(base)
    const wrong = [
      ...WRONG.map(([retention, message]) => [['s', { retention }], message]),
      ...NOT_RETENTIONS.slice(1).map((retention) => [[{ retention }], /^options\.retention must be an object; got /]),
      [['s', { dryrun: true }], /^options has an unknown member "dryrun"\. The known members are dryRun, retention, /],
      [[{ sessionId: 's' }], /^options has an unknown member "sessionId"/],
      [['s', { dryRun: 1 }], /^options\.dryRun must be true or false; got 1$/],
      [['s', null], /^options must be an object; got null$/],
      [['s', []], /^options must be an object; got an array$/],
      [[null], /^sessionId must be a string; got null$/],
      [[5], /^sessionId must be a string; got 5$/],
      [[[]], /^sessionId must be a string; got an array$/],
      [[{ dryRun: true }, {}], /^sessionId must be a string; got an object$/],
    ]
    for (const [args, message] of wrong) {
      await assert.rejects(store.prune(...args), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
    await assert.rejects(store.prune('../s'), { code: 'WAYMARK_INVALID_ID' })
    assert.deepEqual(snapshotOf(base), before)
  })
})

onEveryBackend('maxCheckpointsPerSession', (open) => {
  it('keeps the newest of each session, whatever their encoding', async () => {
    const store = await open(3)
    await checkpointOf(store, makeSession('other'))
    const created = []
    for (let index = 0; index < 7; index += 1) {
      const { checkpointId } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: index % 2 === 1 })
      created.push(checkpointId)
      const { checkpoints, total } = await store.listCheckpoints('s')
      assert.deepEqual(
        checkpoints.map((checkpoint) => checkpoint.id),
        created.slice(-3).toReversed(),
      )
      assert.equal(total, Math.min(3, index + 1))
    }
    assert.equal((await store.listCheckpoints('other')).total, 1)
  })

  it('may be given in the options and may be Infinity', async () => {
    const few = await open({ maxCheckpointsPerSession: 1 })
    const all = await open({ maxCheckpointsPerSession: Infinity })
    for (let index = 0; index < 3; index += 1) {
      await checkpointOf(few, makeSession('s'))
      await checkpointOf(all, makeSession('s'))
    }
    assert.equal((await few.listCheckpoints('s')).total, 1)
    assert.equal((await all.listCheckpoints('s')).total, 3)
  })
})

describe('maxCheckpointsPerSession (files)', () => {
  it('does not depend on the counter file', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    for (const spoil of [(path) => appendFileSync(path, 'x'), (path) => rmSync(path), () => {}]) {
      await newCheckpointIds(store, 3)
      assert.equal(checkpointFiles(base, 's').length, 2)
      spoil(join(base, 's/checkpoints/.names'))
    }
  })

  it('holds across stores that write in turn', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, 3), await openStore(base, 3)]
    for (let round = 0; round < 8; round += 1) await newCheckpointIds(stores[round % 2], 1 + (round % 3))
    assert.equal(checkpointFiles(base, 's').length, 3)
    assert.ok(readdirSync(join(base, 's/checkpoints')).length <= 4)
  })
})
