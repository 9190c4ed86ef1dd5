import assert from 'node:assert/strict'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { makeState, saved, savedAll } from '../support/agents.mjs'
import {
  DELTA,
  assertWhole,
  basesIn,
  createInSequence,
  deltasIn,
  folderOf,
  growingSession,
  noise,
} from '../support/deltas.mjs'
import { makeSession } from '../support/sessions.mjs'
import { backends, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const RELAXED = { durability: 'relaxed' }

/** A store on files with this many deltas, their directory, and the path of their only base. */
async function filled(count = 5, options = RELAXED) {
  const base = scratchDirectory()
  const store = await openStore(base, options)
  const made = await createInSequence(store, count)
  const folder = folderOf(base)
  const [key] = basesIn(folder).map((name) => join(folder, name))
  return { base, store, made, folder, key }
}

/** Names of sessions, newest first. */
const names = (from, to) => Array.from({ length: to - from }, (_, index) => `${to - 1 - index}`)

/** File times are coarse: set one that is later than all before. */
function rewritten(path, bytes) {
  writeFileSync(path, bytes)
  utimesSync(path, new Date(), new Date(Date.now() + 1000))
}

function changedAt(path, at) {
  const bytes = readFileSync(path)
  bytes[at < 0 ? bytes.length + at : at] ^= 0x55
  rewritten(path, bytes)
}

/** The base of other deltas. */
const { key: FOREIGN } = await filled(9)
const { key: LONG_FOREIGN } = await filled(60)

onEveryBackend('deltas', (open) => {
  it('of similar checkpoints take little more than what changed', async () => {
    const store = await open()
    const made = await createInSequence(store, 30)
    for (const { sizeBytes } of made) assert.ok(sizeBytes < 1000, `${sizeBytes}`)
    const { totalSizeBytes } = await store.getSessionStorageStats('s')
    const whole = (await checkpointOf(store, growingSession(0, 'other'), { ...DELTA, encoding: 'zstd' })).sizeBytes
    assert.ok(totalSizeBytes < 4 * whole, `${totalSizeBytes} bytes for thirty, ${whole} for one`)
    assert.deepEqual(await assertWhole(store), names(0, 30))
  })

  it('return whole checkpoints that shrink, grow, become empty or have nothing in common', async () => {
    const store = await open()
    const sessions = [
      makeSession('s', { name: '0', taskTree: {} }),
      makeSession('s', { name: '1', description: noise(300_000) }),
      makeSession('s', { name: '2', description: '' }),
      { id: 's', name: '3', taskTree: {}, checkpointIds: [] },
      makeSession('s', { name: '4', description: noise(5000, 4) }),
      makeSession('s', { name: '5', description: noise(5000, 5) }),
      makeSession('s', { name: '6', description: '検査点 🟦 é \0 \u2028 "\\'.repeat(500) }),
      makeSession('s', { name: '7', description: '検査点 🟦 é \0 \u2028 "\\'.repeat(501) }),
      makeSession('s', { name: '8', description: 'x'.repeat(200_000) }),
    ]
    for (const session of sessions) await checkpointOf(store, session, DELTA)
    const { checkpoints } = await store.listCheckpoints('s')
    const descriptions = checkpoints.toReversed().map(({ session }) => session.description)
    assert.deepEqual(
      descriptions,
      sessions.map(({ description }) => description),
    )
    await assertWhole(store)
  })

  it('of hundreds of concurrent calls are all stored', async () => {
    const store = await open({ ...RELAXED, maxCheckpointsPerSession: 1000 })
    const numbers = Array.from({ length: 300 }, (_, number) => number)
    const results = await Promise.all(
      numbers.map((number) => store.createCheckpoint(growingSession(number), {}, {}, DELTA)),
    )
    assert.deepEqual(
      results.filter(({ success, warnings }) => !success || warnings),
      [],
    )
    assert.deepEqual(await assertWhole(store), names(0, 300))
    const { checkpoints } = await store.listCheckpointInfo('s')
    // A checkpoint that waits too long for a lock is stored whole.
    assert.ok(checkpoints.filter(({ encoding }) => encoding === 'delta').length > 250)
  })

  it('of hundreds of concurrent calls with nothing in common are all stored', async () => {
    const store = await open({ ...RELAXED, maxCheckpointsPerSession: 1000 })
    const sessions = Array.from({ length: 200 }, (_, number) =>
      makeSession('s', { name: `${number}`, description: noise(3000, number) }),
    )
    const results = await Promise.all(sessions.map((session) => store.createCheckpoint(session, {}, {}, DELTA)))
    assert.ok(results.every(({ success }) => success))
    assert.deepEqual(await assertWhole(store), names(0, 200))
  })

  it('are pruned during concurrent calls, and the kept ones are whole', async () => {
    const store = await open({ ...RELAXED, maxCheckpointsPerSession: 5 })
    for (let round = 0; round < 5; round += 1) {
      const numbers = Array.from({ length: 40 }, (_, index) => round * 40 + index)
      await Promise.all(numbers.map((number) => checkpointOf(store, growingSession(number), DELTA)))
      assert.equal((await assertWhole(store)).length, 5)
    }
  })

  for (const deltaCacheBytes of [0, 1000, 30_000]) {
    it(`work with a deltaCacheBytes of ${deltaCacheBytes}`, async () => {
      const store = await open({ ...RELAXED, deltaCacheBytes })
      for (let number = 0; number < 12; number += 1) {
        for (const id of ['a', 'b', 'c']) {
          const { sizeBytes } = await checkpointOf(store, growingSession(number, id), DELTA)
          assert.ok(sizeBytes < 2000, `${sizeBytes}`)
        }
      }
      for (const id of ['a', 'b', 'c']) assert.deepEqual(await assertWhole(store, id), names(0, 12))
    })
  }

  it('of more concurrent sessions than are cached are all stored', async () => {
    const store = await open({ ...RELAXED, deltaCacheBytes: 100_000 })
    const ids = Array.from({ length: 20 }, (_, index) => `s${index}`)
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(
        ids.flatMap((id) =>
          [0, 1, 2].map((index) => checkpointOf(store, growingSession(round * 3 + index, id), DELTA)),
        ),
      )
    }
    for (const id of ids) assert.equal((await assertWhole(store, id)).length, 12)
  })

  it('of a session that was deleted and created again are whole', async () => {
    const store = await open(RELAXED)
    await createInSequence(store, 5)
    await store.deleteSession('s')
    assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, 0)
    await createInSequence(store, 5, { first: 5 })
    assert.deepEqual(await assertWhole(store), names(5, 10))
    await Promise.all(
      [...Array(20).keys()].map((n) =>
        n % 5 ? store.createCheckpoint(growingSession(n), {}, {}, DELTA) : store.deleteSession('s'),
      ),
    )
    await createInSequence(store, 2, { first: 100 })
    await assertWhole(store)
  })

  it('leave no file when they are deleted one by one in any order', async () => {
    const store = await open(RELAXED)
    const made = [
      ...(await createInSequence(store, 6)),
      ...(await createInSequence(store, 6, {
        sessionOf: (n) => makeSession('s', { name: `${n}`, description: noise(9000, n) }),
      })),
    ]
    const order = made.map((_, index) => made[(index * 5) % made.length])
    for (const [index, { checkpointId }] of order.entries()) {
      assert.equal((await store.deleteCheckpoint('s', checkpointId)).success, true)
      assert.equal((await assertWhole(store)).length, made.length - index - 1)
    }
    assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, 0)
  })

  it('of an agent have their own bases, which are deleted with them', async () => {
    const store = await open({ ...RELAXED, maxCheckpointsPerAgent: 4 })
    const [one, two] = [store.agent('s', 'one'), store.agent('s', 'two')]
    const state = (iteration) =>
      makeState({ iteration, resumeHint: noise(8000), context: new Uint8Array(20).fill(iteration) })
    for (let iteration = 0; iteration < 8; iteration += 1) {
      for (const agent of [one, two]) await saved(agent, state(iteration), { encoding: 'delta' })
    }
    await createInSequence(store, 3)
    for (const agent of [one, two]) {
      const { checkpoints, damaged } = await agent.list()
      assert.deepEqual([checkpoints.map(({ iteration }) => iteration), damaged], [[7, 6, 5, 4], []])
      assert.deepEqual(checkpoints[0].context, new Uint8Array(20).fill(7))
      assert.deepEqual([...new Set((await agent.info()).checkpoints.map(({ encoding }) => encoding))], ['delta'])
    }
    assert.equal(await one.clear(), 4)
    assert.equal((await two.latest()).iteration, 7)
    assert.equal(await two.prune(1), 3)
    assert.equal((await two.latest()).iteration, 7)
    assert.equal(await two.clear(), 1)
    assert.equal(await store.deleteSessionCheckpoints('s'), 3)
    assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, 0)
  })

  it('that are pinned keep their bases', async () => {
    const store = await open({ ...RELAXED, maxCheckpointsPerSession: 2 })
    const [first] = await createInSequence(store, 1)
    await store.pinCheckpoint('s', first.checkpointId)
    const other = (n) => makeSession('s', { name: `${n}`, description: noise(9000, n) })
    await createInSequence(store, 6, { first: 1, sessionOf: other })
    assert.deepEqual(await assertWhole(store), ['6', '5', '0'])
    await store.unpinCheckpoint('s', first.checkpointId)
    await createInSequence(store, 1, { first: 7, sessionOf: other })
    assert.deepEqual(await assertWhole(store), ['7', '6'])
  })

  it('are readable within maxReadBytes, however long their base is', async () => {
    const store = await open({ ...RELAXED, maxReadBytes: 60_000 })
    const copy = await open({ ...RELAXED, maxReadBytes: 60_000 })
    let text = noise(50_000)
    const sessionOf = (number) => {
      const at = (number * 5000) % 50_000
      text = text.slice(0, at) + noise(5000, number + 1) + text.slice(at + 5000)
      return makeSession('s', { name: `${number}`, description: text })
    }
    await createInSequence(store, 30, { sessionOf })
    assert.deepEqual(await assertWhole(store), names(0, 30))
    // A store with nothing in memory.
    await store.copyTo(copy)
    assert.deepEqual(await assertWhole(copy), names(0, 30))
  })

  it('are copied with their bases, whichever exist in the target', async () => {
    const [store, other] = [await open(RELAXED), await openStore('memory:')]
    await createInSequence(store, 3)
    for (let first = 3; first < 30; first += 9) {
      await store.copyTo(other)
      assert.deepEqual(await assertWhole(other), names(0, first))
      await createInSequence(store, 9, { first })
    }
    await savedAll(store.agent('s', 'a'), [makeState()])
    await store.copyTo(other)
    assert.deepEqual(await assertWhole(other), names(0, 30))
    assert.deepEqual((await store.copyTo(other)).checkpoints, 0)
  })
})

describe('the base of deltas', () => {
  it('is one file for similar deltas, and another for those with nothing in common', async () => {
    const { store, folder } = await filled(20)
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [1, 20])
    const sessionOf = (number) => makeSession('s', { name: `${number}`, description: noise(20_000, 99) })
    await createInSequence(store, 5, { first: 20, sessionOf })
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [2, 25])
  })

  it('is deleted with the last delta that needs it and not before', async () => {
    const { store, made, folder } = await filled(4)
    const order = [0, 3, 1, 2].map((index) => made[index])
    for (const [index, { checkpointId }] of order.entries()) {
      assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [1, 4 - index])
      await assertWhole(await openStore(join(folder, '../..')))
      await store.deleteCheckpoint('s', checkpointId)
    }
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [0, 0])
  })

  it('is deleted by retention', async () => {
    const { store, folder } = await filled(3, { ...RELAXED, maxCheckpointsPerSession: 3 })
    const sessionOf = (number) => makeSession('s', { name: `${number}`, description: noise(9000, number) })
    await createInSequence(store, 12, { first: 3, sessionOf })
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [3, 3])
  })

  it('is used by another store that finds it', async () => {
    const { base, folder } = await filled(5)
    const again = await openStore(base, RELAXED)
    const made = await createInSequence(again, 5, { first: 5 })
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [1, 10])
    for (const { sizeBytes } of made) assert.ok(sizeBytes < 1000)
    assert.deepEqual(await assertWhole(await openStore(base)), names(0, 10))
  })

  it('that has no deltas after an interruption is deleted with the next delta', async () => {
    const { base, folder, key } = await filled(3)
    copyFileSync(key, join(folder, 'cp-1-000001.key.zst'))
    // With other bases.
    writeFileSync(join(folder, 'notes.key'), 'mine')
    const again = await openStore(base, RELAXED)
    await createInSequence(again, 1, { first: 3 })
    assert.deepEqual(basesIn(folder).length, 1)
    assert.ok(existsSync(join(folder, 'notes.key')))
    assert.deepEqual(await assertWhole(again), names(0, 4))
  })

  it('that has no deltas after a quarantine is deleted by deleteSessionCheckpoints', async () => {
    const { base, made, folder } = await filled(2)
    for (const { path } of made) truncateSync(path, 150)
    const other = await openStore(base)
    await other.recoverSession('s', { quarantine: true })
    assert.deepEqual([basesIn(folder).length, deltasIn(folder).length], [1, 0])
    await other.deleteSessionCheckpoints('s')
    assert.equal(basesIn(folder).length, 0)
  })
})

/** Kinds of damage to a base, and the error message. */
const DAMAGE = {
  missing: [(key) => rmSync(key), /it is missing$/],
  empty: [(key) => truncateSync(key, 0), /it is shorter than it was/],
  'cut off': [(key) => truncateSync(key, 900), /it is shorter than it was/],
  'changed at its beginning': [(key) => changedAt(key, 1), /it is not zstd/],
  'changed in the middle': [(key) => changedAt(key, 900), /it is not zstd/],
  'all zeros': [(key) => rewritten(key, Buffer.alloc(statSync(key).size)), /it is not zstd/],
  'that of other deltas': [(key) => rewritten(key, readFileSync(FOREIGN)), /it is/],
  'that of other deltas, and longer': [(key) => rewritten(key, readFileSync(LONG_FOREIGN)), /it is/],
  'a directory': [
    (key) => {
      rmSync(key)
      mkdirSync(key)
    },
    /it is not a file$/,
  ],
}

describe('a damaged base', () => {
  for (const [kind, [damage, why]] of Object.entries(DAMAGE)) {
    it(`is named as the cause by every method that reads a delta: ${kind}`, async () => {
      const { base, made, key } = await filled()
      damage(key)
      const { checkpointId, path } = made.at(-1)
      const isTold = (error) => {
        assert.equal(error.code, 'WAYMARK_CORRUPT')
        assert.ok(
          error.message.startsWith(`${path} cannot be read without its base: ${key} is damaged: `),
          error.message,
        )
        assert.match(error.message, why)
        assert.equal(error.cause.code, 'WAYMARK_CORRUPT')
        assert.ok(error.cause.message.startsWith(`${key} is damaged: `))
        return true
      }
      const other = await openStore(base)
      await assert.rejects(other.getCheckpoint('s', checkpointId), isTold)
      await assert.rejects(other.getLatestCheckpoint('s'), isTold)
      const { checkpoints, damaged } = await other.listCheckpoints('s')
      assert.deepEqual([checkpoints, damaged.length], [[], 5])
      assert.match(damaged[0].error, why)
      const infos = await other.listCheckpointInfo('s')
      assert.deepEqual([infos.total, infos.damaged], [5, []])
      const verdict = await other.verifyCheckpoint('s', checkpointId)
      assert.deepEqual([verdict.whole, verdict.code], [false, 'WAYMARK_CORRUPT'])
      const { code, error } = await other.restoreCheckpoint({ checkpointId, sessionId: 's' })
      assert.equal(code, 'WAYMARK_CORRUPT')
      assert.match(error, why)
      const recovered = await other.recoverSession('s', { quarantine: true })
      assert.deepEqual([recovered.success, recovered.passedOver.length], [false, 5])
      assert.ok(recovered.passedOver.every(({ movedTo }) => existsSync(movedTo)))
      await createInSequence(other, 2, { first: 5 })
      assert.deepEqual(await assertWhole(await openStore(base)), names(5, 7))
    })

    it(`is detected by a store that has its text in memory before the next write: ${kind}`, async () => {
      const { base, store, key } = await filled()
      damage(key)
      await createInSequence(store, 4, { first: 5 })
      const { checkpoints, damaged } = await (await openStore(base)).listCheckpoints('s')
      assert.deepEqual(
        checkpoints.map(({ session }) => session.name),
        names(5, 9),
      )
      assert.equal(damaged.length, 5)
    })

    it(`is detected by verifySession, whatever is in memory: ${kind}`, async () => {
      const { store, made, key } = await filled()
      await store.getLatestCheckpoint('s')
      damage(key)
      const { whole, checkpoints } = await store.verifySession('s')
      assert.deepEqual([whole, checkpoints.filter((verdict) => verdict.whole)], [false, []])
      assert.equal((await store.verifyCheckpoint('s', made[4].checkpointId)).whole, false)
    })
  }

  it('does not affect deltas based on what precedes the damage', async () => {
    for (const damage of [(key) => changedAt(key, -1), (key) => truncateSync(key, statSync(key).size - 1)]) {
      const { base, store, key } = await filled(5)
      damage(key)
      const { checkpoints, damaged } = await (await openStore(base)).listCheckpoints('s')
      assert.deepEqual([checkpoints.at(-1).session.name, damaged.length > 0], ['0', true])
      await createInSequence(store, 2, { first: 5 })
      const after = await (await openStore(base)).listCheckpoints('s')
      assert.equal(after.checkpoints.length, checkpoints.length + 2)
    }
  })

  it('does not affect deltas of another base', async () => {
    const { base, store, key } = await filled(3)
    const sessionOf = (number) => makeSession('s', { name: `${number}`, description: noise(9000, number) })
    await createInSequence(store, 2, { first: 3, sessionOf })
    changedAt(key, 900)
    const other = await openStore(base)
    const recovered = await other.recoverSession('s')
    assert.deepEqual([recovered.success, recovered.passedOver], [true, []])
    const { checkpoints, damaged } = await other.listCheckpoints('s')
    assert.deepEqual([checkpoints.length, damaged.length], [2, 3])
  })

  it('with trailing bytes is read as before', async () => {
    const { base, store, key } = await filled(3)
    appendFileSync(key, 'what a writer left that died in the middle of it')
    assert.deepEqual(await assertWhole(await openStore(base)), names(0, 3))
    await createInSequence(store, 3, { first: 3 })
    await createInSequence(await openStore(base), 3, { first: 6 })
    assert.deepEqual(await assertWhole(await openStore(base)), names(0, 9))
  })

  it('that is put back makes all deltas readable again', async () => {
    const { base, store, key } = await filled(3)
    renameSync(key, `${key}.bak`)
    await createInSequence(store, 2, { first: 3 })
    assert.equal((await (await openStore(base)).listCheckpoints('s')).damaged.length, 3)
    renameSync(`${key}.bak`, key)
    assert.deepEqual(await assertWhole(await openStore(base)), names(0, 5))
  })
})

describe('a damaged delta', () => {
  for (const [kind, damage] of Object.entries({
    empty: (path) => truncateSync(path, 0),
    'cut off': (path) => truncateSync(path, statSync(path).size - 1),
    'cut off in its first line': (path) => truncateSync(path, 40),
    'changed at its end': (path) => changedAt(path, -1),
    'that of another checkpoint': (path, other) => copyFileSync(other, path),
    'a key': (path, _, key) => copyFileSync(key, path),
  })) {
    it(`is reported and affects no other: ${kind}`, async () => {
      const { base, made, key } = await filled(4)
      damage(made[2].path, made[1].path, key)
      for (const store of [await openStore(base)]) {
        await assert.rejects(store.getCheckpoint('s', made[2].checkpointId), { code: 'WAYMARK_CORRUPT' })
        const { checkpoints, damaged } = await store.listCheckpoints('s')
        assert.deepEqual([checkpoints.length, damaged.map(({ id }) => id)], [3, [made[2].checkpointId]])
        assert.equal((await store.deleteCheckpoint('s', made[2].checkpointId)).success, true)
        assert.equal((await assertWhole(store)).length, 3)
      }
    })
  }

  it('that names an impossible base is reported', async () => {
    const { base, made, folder, key } = await filled(3)
    const original = readFileSync(made[1].path)
    const length = original.readUInt32LE(4)
    const said = JSON.parse(original.subarray(8, 8 + length).toString())
    const crafted = {
      'a huge number of bytes': { bytes: Number.MAX_SAFE_INTEGER },
      'more than can be counted': { bytes: 1e30 },
      'no bytes': { bytes: 0 },
      'less than a frame': { bytes: 1 },
      'a path': { key: '../../other/checkpoints/cp-1-000001' },
      'a key that is not there': { key: 'cp-1-000001' },
      'another checksum': { checksum: '00000000' },
      nothing: { key: undefined },
    }
    for (const [what, change] of Object.entries(crafted)) {
      const text = Buffer.from(JSON.stringify({ ...said, ...change }))
      const head = Buffer.from(original.subarray(0, 8))
      head.writeUInt32LE(text.length, 4)
      writeFileSync(made[1].path, Buffer.concat([head, text, original.subarray(8 + length)]))
      const store = await openStore(base)
      await assert.rejects(store.getCheckpoint('s', made[1].checkpointId), { code: 'WAYMARK_CORRUPT' }, what)
      for (const newLocation of Object.values(backends)) {
        const copy = await openStore(newLocation())
        await store.copyTo(copy)
        await store.copyTo(copy)
        const { checkpoints, damaged } = await copy.listCheckpoints('s')
        assert.deepEqual([checkpoints.length, damaged.length], [2, 1], what)
      }
      await createInSequence(store, 1, { first: 3 })
      await store.deleteCheckpoint('s', (await store.getLatestCheckpoint('s')).id)
    }
    writeFileSync(made[1].path, original)
    assert.deepEqual(await assertWhole(await openStore(base)), names(0, 3))
    assert.deepEqual(basesIn(folder), [key.slice(folder.length + 1)])
  })

  it('is not inflated beyond maxReadBytes', async () => {
    const { base, store, made } = await filled(1)
    const sessionOf = (number) => makeSession('big', { name: `${number}`, description: 'x'.repeat(3_000_000) })
    const [big] = await createInSequence(store, 1, { sessionOf })
    const [bigKey] = basesIn(folderOf(base, 'big'))
    assert.ok(statSync(join(folderOf(base, 'big'), bigKey)).size < 10_000)
    const careful = await openStore(base, { maxReadBytes: 1_000_000 })
    await assert.rejects(careful.getCheckpoint('big', big.checkpointId), { code: 'WAYMARK_TOO_LARGE', message: /key/ })
    assert.equal((await careful.getCheckpoint('s', made[0].checkpointId)).session.name, '0')
    // A store with a higher limit can read it.
    await createInSequence(careful, 2, { first: 1, sessionOf })
    assert.equal((await assertWhole(await openStore(base), 'big')).length, 3)
  })
})

describe('copyTo of deltas', () => {
  const damages = {
    missing: (key) => rmSync(key),
    changed: (key) => changedAt(key, 30),
    'cut off': (key) => truncateSync(key, 30),
  }
  for (const [kind, damage] of Object.entries(damages)) {
    it(`is repaired by another copy when its base is ${kind}`, async () => {
      const { store, made } = await filled(4)
      const base = scratchDirectory()
      await store.copyTo(await openStore(base))
      damage(join(folderOf(base), basesIn(folderOf(base))[0]))
      assert.equal((await (await openStore(base)).listCheckpoints('s')).damaged.length, 4)
      await store.copyTo(await openStore(base))
      assert.deepEqual(await assertWhole(await openStore(base)), names(0, 4))
      assert.equal((await store.copyTo(await openStore(base))).unchanged >= made.length, true)
    })

    it(`keeps its base when the base of the source is ${kind}`, async () => {
      const { base: from, store, key } = await filled(4)
      const base = scratchDirectory()
      await store.copyTo(await openStore(base))
      damage(key)
      await (await openStore(from)).copyTo(await openStore(base))
      assert.deepEqual(await assertWhole(await openStore(base)), names(0, 4))
    })

    it(`copies what can be read when the base is ${kind}`, async () => {
      const { base, store, key } = await filled(4)
      const sessionOf = (number) => makeSession('s', { name: `${number}`, description: noise(9000, number) })
      await createInSequence(store, 1, { first: 4, sessionOf })
      damage(key)
      for (const newLocation of Object.values(backends)) {
        const copy = await openStore(newLocation())
        await (await openStore(base)).copyTo(copy)
        const { checkpoints, damaged } = await copy.listCheckpoints('s')
        assert.deepEqual([checkpoints.map(({ session }) => session.name), damaged.length], [['4'], 4])
      }
    })
  }

  it('by several stores at once has everything that each brought', async () => {
    for (const newLocation of Object.values(backends)) {
      const store = await openStore(scratchDirectory(), RELAXED)
      await createInSequence(store, 2)
      const copy = await openStore(newLocation(), RELAXED)
      for (let first = 2; first < 40; first += 2) {
        const copies = [store.copyTo(copy), store.copyTo(copy)]
        await createInSequence(store, 2, { first })
        await Promise.all([...copies, store.copyTo(copy)])
        assert.deepEqual(await assertWhole(copy), names(0, first + 2))
        if (first % 10 === 0) await copy.deleteSessionCheckpoints('s')
      }
    }
  })

  it('during writes and prunes holds whole checkpoints only', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { ...RELAXED, maxCheckpointsPerSession: 2 })
    const sessionOf = (number) => makeSession('s', { name: `${number}`, description: noise(9000, number) })
    await createInSequence(store, 2, { sessionOf })
    const writing = createInSequence(store, 60, { first: 2, sessionOf })
    const state = { isOver: false }
    writing.finally(() => {
      state.isOver = true
    })
    let copies = 0
    while (!state.isOver) {
      const copy = await openStore('memory:')
      await (await openStore(base)).copyTo(copy).catch((error) => assert.equal(error.code, 'WAYMARK_NOT_FOUND'))
      assert.deepEqual((await copy.listCheckpoints('s')).damaged, [])
      copies += 1
    }
    await writing
    assert.ok(copies > 0)
  })
})

describe('foreign names', () => {
  it('that look like those of bases and deltas are plain names', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, RELAXED)
    for (const id of ['cp-1-000001.key', 's.delta', 'x.key.zst', 'checkpoints.delta.zst']) {
      await createInSequence(store, 3, { sessionOf: (number) => growingSession(number, id) })
      assert.deepEqual(await assertWhole(store, id), names(0, 3))
      const agent = store.agent(id, id)
      for (const iteration of [1, 2, 3]) await saved(agent, makeState({ iteration }), { encoding: 'delta' })
      assert.equal((await agent.list()).damaged.length, 0)
    }
    // Copies made by hand under foreign names.
    const id = 's.delta'
    const [path] = deltasIn(folderOf(base, id))
    for (const own of ['mine.key.delta.zst', 'mine.delta.delta.zst', '.delta.zst']) {
      copyFileSync(join(folderOf(base, id), path), join(folderOf(base, id), own))
    }
    const { checkpoints, damaged } = await (await openStore(base)).listCheckpoints(id)
    assert.deepEqual([checkpoints.length, damaged], [5, []])
    await store.deleteSessionCheckpoints(id)
    assert.deepEqual(basesIn(folderOf(base, id)), [])
  })
})
