import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, newCheckpointId, openStore, scratchDirectory } from '../support/stores.mjs'
import { pollDuring } from '../support/waiting.mjs'

// On Windows, where links need privileges, it is a file that contains the path.
const isWindows = process.platform === 'win32'
const asLink = { skip: isWindows && 'there it is a file' }

/** The target of `latest` of a session; `null` without one. */
function targetIn(base, session = 's') {
  const path = join(base, session, 'latest')
  try {
    return isWindows ? readFileSync(path, 'utf8') : readlinkSync(path)
  } catch (error) {
    if (error.code === 'ENOENT') return null
    throw error
  }
}

/** Asserts that `latest` names the newest checkpoint and that it exists. */
async function isRight(store, base, session = 's') {
  const [newest] = (await store.listCheckpointInfo(session, { limit: 1 })).checkpoints
  const ending = newest.encoding === 'gzip' ? '.json.gz' : '.json'
  assert.equal(targetIn(base, session), `checkpoints/${newest.id}${ending}`)
  assert.ok(existsSync(join(base, session, targetIn(base, session))))
}

async function made(store, options = {}) {
  const result = await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })
  assert.equal('warnings' in result, false, result.warnings?.join())
  return result
}

describe('the latest link', () => {
  it('names each new checkpoint, whatever its encoding', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    assert.equal(targetIn(base), null)
    for (const compress of [false, true, true, false]) {
      const { checkpointId } = await made(store, { compress })
      await isRight(store, base)
      assert.ok(targetIn(base).includes(checkpointId))
    }
  })

  it('can be followed by any program', asLink, async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await made(store)
    assert.equal(JSON.parse(readFileSync(join(base, 's', 'latest'), 'utf8')).id, checkpointId)
    assert.ok(statSync(join(base, 's', 'latest')).isFile())
  })

  it('follows deletions of the newest, the oldest and others, and is removed with the last', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const ids = []
    for (let count = 0; count < 6; count += 1) {
      ids.push((await made(store, { compress: count % 2 === 0 })).checkpointId)
    }
    for (const index of [5, 0, 4, 2]) {
      await store.deleteCheckpoint('s', ids[index])
      await isRight(store, base)
    }
    const newest = await made(store)
    await isRight(store, base)
    for (const id of [newest.checkpointId, ids[1], ids[3]]) {
      await isRight(store, base)
      assert.deepEqual(await store.deleteCheckpoint('s', id), { success: true })
    }
    assert.equal(targetIn(base), null)
    assert.deepEqual(
      readdirSync(join(base, 's')).filter((name) => name.includes('latest')),
      [],
    )
    await made(store)
    await isRight(store, base)
  })

  it('is removed by deleteSessionCheckpoints, and the session stays usable', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (let count = 0; count < 3; count += 1) await made(store)
    assert.equal(await store.deleteSessionCheckpoints('s'), 3)
    assert.equal(targetIn(base), null)
    await made(store)
    await isRight(store, base)
    assert.deepEqual(await store.deleteSession('s'), { success: true })
    assert.deepEqual(readdirSync(base), [])
  })

  it('follows retention, with pins and without', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    for (let count = 0; count < 8; count += 1) {
      const { checkpointId } = await made(store)
      if (count % 3 === 0) await store.pinCheckpoint('s', checkpointId)
      await isRight(store, base)
    }
  })

  it('names the newest checkpoint after concurrent calls', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 5)
    await Promise.all(Array.from({ length: 40 }, () => made(store)))
    await isRight(store, base)
  })

  it('follows checkpoints of other stores and processes', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, 3), await openStore(base, 3)]
    for (let count = 0; count < 8; count += 1) {
      await made(stores[count % 2])
      await isRight(stores[0], base)
    }
    const { code, stdout } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)}, 3)
      await store.initialize()
      const { checkpointId } = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
      console.log(checkpointId)
    `)
    assert.equal(code, 0)
    assert.equal(targetIn(base), `checkpoints/${stdout.trim()}.json`)
    await stores[0].deleteCheckpoint('s', stdout.trim())
    await isRight(stores[1], base)
    await made(stores[1])
    await isRight(stores[0], base)
  })

  it('names the newest checkpoint after many processes wrote at once', async () => {
    const base = scratchDirectory()
    const script = `
      const store = new CheckpointStore(${JSON.stringify(base)}, 4)
      await store.initialize()
      for (let n = 0; n < 15; n += 1) {
        const result = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
        if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    `
    const runs = await Promise.all(Array.from({ length: 3 }, () => runNode(script)))
    for (const run of runs) assert.deepEqual(run, { code: 0, signal: null, stdout: '', stderr: '' })
    await isRight(await openStore(base), base)
    assert.deepEqual(
      readdirSync(join(base, 's')).filter((name) => name.endsWith('.tmp')),
      [],
    )
  })

  it('does not name a quarantined checkpoint', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await made(store)
    for (let count = 0; count < 2; count += 1) truncateSync((await made(store)).path, 20)
    const recovered = await store.recoverSession('s', { quarantine: true })
    assert.equal(recovered.passedOver.length, 2)
    await isRight(store, base)
    truncateSync(join(base, 's', targetIn(base)), 20)
    assert.equal((await store.recoverSession('s', { quarantine: true })).success, false)
    assert.equal(targetIn(base), null)
  })

  it('ignores checkpoints of agents', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.agent('s', 'a').save({ iteration: 1 })
    assert.equal(targetIn(base), null)
    await made(store)
    const before = targetIn(base)
    await store.agent('s', 'a').save({ iteration: 2 })
    await store.agent('s', 'a').clear()
    assert.equal(targetIn(base), before)
  })

  it('belongs to one session, also of a fork and a copy', async () => {
    const [base, other] = [scratchDirectory(), scratchDirectory()]
    const store = await openStore(base)
    await made(store)
    const { checkpointId } = await made(store)
    await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
    await isRight(store, base, 'fork')
    await isRight(store, base)
    const copy = await openStore(other)
    await store.copyTo(copy)
    for (const session of ['s', 'fork']) await isRight(copy, other, session)
  })

  it('is created with the next checkpoint in a directory without one', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const ids = [(await made(store)).checkpointId, (await made(store)).checkpointId]
    rmSync(join(base, 's', 'latest'))
    const reopened = await openStore(base)
    await reopened.deleteCheckpoint('s', ids[1])
    assert.equal(targetIn(base), null)
    await made(reopened)
    await isRight(reopened, base)
  })

  it('never names a deleted checkpoint for a concurrent reader', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { maxCheckpointsPerSession: 3, durability: 'relaxed' })
    await made(store)
    const write = async () => {
      for (let count = 0; count < 150; count += 1) {
        const { checkpointId } = await made(store, { compress: count % 2 === 0 })
        if (count % 3 !== 0) await store.deleteCheckpoint('s', checkpointId)
      }
    }
    const followed = await pollDuring(write(), () => {
      const target = targetIn(base)
      assert.notEqual(target, null)
      // A deleted checkpoint does not reappear, so a link that still names it is stale.
      if (!existsSync(join(base, 's', target))) assert.notEqual(targetIn(base), target)
    })
    assert.ok(followed > 0)
    await isRight(store, base)
  })
})

describe('a foreign file named latest', () => {
  it('does not prevent new checkpoints', async () => {
    for (const put of [
      (path) => writeFileSync(path, 'mine'),
      (path) => mkdirSync(join(path, 'inside'), { recursive: true }),
    ]) {
      const base = scratchDirectory()
      const store = await openStore(base)
      await store.saveSession(makeSession('s'))
      put(join(base, 's', 'latest'))
      const result = await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
      assert.equal(result.success, true, result.error)
      for (const warning of result.warnings ?? []) assert.match(warning, /link/)
      assert.equal((await store.getLatestCheckpoint('s')).id, result.checkpointId)
      assert.equal((await store.verifySession('s')).whole, true)
      assert.deepEqual(await store.deleteSession('s'), { success: true })
    }
  })

  it('is replaced if it is a link to elsewhere, and its target is not changed', asLink, async () => {
    const [base, elsewhere] = [scratchDirectory(), scratchDirectory()]
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    writeFileSync(join(elsewhere, 'file'), 'mine')
    for (const target of [join(elsewhere, 'file'), elsewhere, 'latest', 'checkpoints/cp-none.json']) {
      rmSync(join(base, 's', 'latest'), { force: true })
      symlinkSync(target, join(base, 's', 'latest'))
      await made(store)
      await isRight(store, base)
    }
    rmSync(join(base, 's', 'latest'))
    symlinkSync(elsewhere, join(base, 's', 'latest'))
    assert.deepEqual(await store.deleteSession('s'), { success: true })
    assert.equal(readFileSync(join(elsewhere, 'file'), 'utf8'), 'mine')
  })
})

describe('the latest link of several stores', asLink, () => {
  const target = (base) => readlinkSync(join(base, 's', 'latest'))

  it('names an existing checkpoint after they deleted in turn', async () => {
    const base = scratchDirectory()
    const [mine, theirs] = [await openStore(base), await openStore(base)]
    const ids = [await newCheckpointId(mine), await newCheckpointId(mine), await newCheckpointId(mine)]
    await theirs.deleteCheckpoint('s', ids[2])
    assert.equal(target(base), `checkpoints/${ids[1]}.json`)
    await mine.deleteCheckpoint('s', ids[1])
    assert.equal(target(base), `checkpoints/${ids[0]}.json`)
  })

  it('is removed with the last checkpoint, whichever store deleted the others', async () => {
    const base = scratchDirectory()
    const [mine, theirs] = [await openStore(base, 2), await openStore(base, 2)]
    const ids = []
    for (let count = 0; count < 4; count += 1) ids.push(await newCheckpointId(mine))
    await theirs.deleteCheckpoint('s', ids[3])
    await mine.deleteCheckpoint('s', ids[2])
    assert.equal((await mine.listCheckpointInfo('s')).total, 0)
    assert.equal(readdirSync(join(base, 's')).includes('latest'), false)
  })

  it('is copied with a pinned newest checkpoint', async () => {
    const [base, other] = [scratchDirectory(), scratchDirectory()]
    const store = await openStore(base)
    const id = await newCheckpointId(store)
    await store.pinCheckpoint('s', id)
    await store.copyTo(await openStore(other))
    assert.equal(readdirSync(join(other, 's')).includes('latest'), true)
    assert.equal(target(other), `checkpoints/${id}.json`)
  })

  it('that cannot be created does not prevent deletions', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    mkdirSync(join(base, 's', 'latest', 'inside'), { recursive: true })
    const ids = []
    for (let count = 0; count < 4; count += 1) ids.push(await newCheckpointId(store))
    assert.equal((await store.listCheckpointInfo('s')).total, 2, 'the limit holds')
    assert.deepEqual(await store.deleteCheckpoint('s', ids[3]), { success: true })
    const { path } = await checkpointOf(store, makeSession('s'))
    truncateSync(path, 10)
    const recovered = await store.recoverSession('s', { quarantine: true })
    assert.deepEqual([recovered.success, recovered.passedOver.length], [true, 1])
    assert.deepEqual(snapshotOf(join(base, 's', 'latest')), { 'inside/': {} })
  })

  it('does not replace a foreign file', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    writeFileSync(join(base, 's', 'latest'), 'mine')
    const ids = [await newCheckpointId(store), await newCheckpointId(store)]
    await store.deleteCheckpoint('s', ids[1])
    assert.equal(readFileSync(join(base, 's', 'latest'), 'utf8'), 'mine')
  })
})
