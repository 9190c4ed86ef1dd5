import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  checkpointIdsOf,
  checkpointOf,
  newCheckpointId,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'
import { pollDuring } from '../support/waiting.mjs'

async function pinnedIds(store) {
  const pinnedAmong = ({ checkpoints }) => {
    for (const { pinned } of checkpoints) assert.ok(pinned === true || pinned === undefined)
    return checkpoints.filter(({ pinned }) => pinned).map(({ id }) => id)
  }
  const pinned = pinnedAmong(await store.listCheckpointInfo('s'))
  assert.deepEqual(pinnedAmong(await store.history('s')), pinned)
  assert.deepEqual(pinnedAmong(await store.listAllCheckpoints()), pinned)
  assert.equal((await store.sessionsInfo()).find(({ id }) => id === 's').pinnedCount, pinned.length)
  return pinned
}

onEveryBackend('pinCheckpoint', (open) => {
  for (const compress of [false, true]) {
    it(`keeps a checkpoint from retention and out of its count${compress ? ', compressed' : ''}`, async () => {
      const store = await open(2)
      const ids = [await newCheckpointId(store, { compress }), await newCheckpointId(store, { compress })]
      for (const id of ids) assert.deepEqual(await store.pinCheckpoint('s', id), { success: true })
      for (let count = 0; count < 10; count += 1) ids.push(await newCheckpointId(store, { compress }))
      assert.deepEqual(await checkpointIdsOf(store), [ids[11], ids[10], ids[1], ids[0]])
      assert.deepEqual(await pinnedIds(store), [ids[1], ids[0]])
      assert.equal((await store.verifySession('s')).whole, true)
    })
  }

  it('protects a checkpoint until unpinCheckpoint and the next retention', async () => {
    const store = await open(2)
    const pinned = await newCheckpointId(store)
    await store.pinCheckpoint('s', pinned)
    const ids = [await newCheckpointId(store), await newCheckpointId(store), await newCheckpointId(store)]
    assert.deepEqual(await store.unpinCheckpoint('s', pinned), { success: true })
    assert.deepEqual(await checkpointIdsOf(store), [ids[2], ids[1], pinned], 'unpinning removes nothing by itself')
    assert.deepEqual(await pinnedIds(store), [])
    const next = await newCheckpointId(store)
    assert.deepEqual(await checkpointIdsOf(store), [next, ids[2]])
  })

  it('may pin the newest checkpoint, or the only other one under a limit of 1', async () => {
    const store = await open(1)
    const first = await newCheckpointId(store)
    await store.pinCheckpoint('s', first)
    const second = await newCheckpointId(store)
    await store.pinCheckpoint('s', second)
    assert.equal((await store.getLatestCheckpoint('s')).id, second)
    const third = await newCheckpointId(store)
    assert.deepEqual(await checkpointIdsOf(store), [third, second, first])
  })

  it('and unpinCheckpoint are idempotent', async () => {
    const store = await open(1)
    const id = await newCheckpointId(store)
    for (let round = 0; round < 2; round += 1) {
      for (let twice = 0; twice < 2; twice += 1) {
        assert.deepEqual(await store.pinCheckpoint('s', id), { success: true })
        assert.deepEqual(await pinnedIds(store), [id])
      }
      for (let twice = 0; twice < 2; twice += 1) {
        assert.deepEqual(await store.unpinCheckpoint('s', id), { success: true })
        assert.deepEqual(await pinnedIds(store), [])
      }
    }
  })

  it('does not prevent deleteCheckpoint', async () => {
    const store = await open()
    const ids = []
    for (const compress of [false, true]) {
      ids.push(await newCheckpointId(store, { compress }))
      await store.pinCheckpoint('s', ids.at(-1))
    }
    assert.deepEqual(await store.deleteCheckpoint('s', ids[1]), { success: true })
    assert.deepEqual(await pinnedIds(store), [ids[0]])
    assert.equal(await store.deleteSessionCheckpoints('s'), 1)
    assert.deepEqual(await checkpointIdsOf(store), [])
  })

  it('rejects a checkpoint that does not exist', async () => {
    const store = await open()
    const id = await newCheckpointId(store)
    for (const method of ['pinCheckpoint', 'unpinCheckpoint']) {
      for (const [session, checkpoint] of [
        ['s', 'cp-none'],
        ['unknown', id],
      ]) {
        assert.deepEqual(await store[method](session, checkpoint), {
          success: false,
          error: `Checkpoint not found: ${checkpoint} in session ${session}`,
          code: 'WAYMARK_NOT_FOUND',
        })
      }
      assert.equal((await store[method]('..', id)).code, 'WAYMARK_INVALID_ID')
      assert.equal((await store[method]('s')).code, 'WAYMARK_INVALID_ARGUMENT')
    }
    assert.deepEqual(await pinnedIds(store), [])
  })

  it('keeps a checkpoint readable like any other', async () => {
    const store = await open(1)
    const id = await newCheckpointId(store, { label: 'base line' })
    await store.pinCheckpoint('s', id)
    await newCheckpointId(store)
    assert.equal((await store.getCheckpointByLabel('s', 'base line')).id, id)
    assert.equal((await store.restoreCheckpoint('s', id, { validateChecksum: true })).success, true)
    assert.equal((await store.loadSession('s')).lastCheckpointId, id)
  })

  it('does not pin the checkpoint of another session with the same id', async () => {
    const store = await open(1)
    const id = await newCheckpointId(store)
    await store.pinCheckpoint('s', id)
    assert.equal((await store.pinCheckpoint('other', id)).code, 'WAYMARK_NOT_FOUND')
    for (let count = 0; count < 3; count += 1) await checkpointOf(store, makeSession('other'))
    assert.equal((await store.listCheckpointInfo('other')).total, 1)
    assert.deepEqual(await pinnedIds(store), [id])
  })
})

describe('a pin (files)', () => {
  it('is an empty file beside the checkpoint and is deleted with it', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 1)
    const before = snapshotOf(base)
    assert.equal((await store.pinCheckpoint('unknown', 'cp-none')).code, 'WAYMARK_NOT_FOUND')
    assert.deepEqual(snapshotOf(base), before)
    const id = await newCheckpointId(store)
    const pin = join(base, 's', 'checkpoints', `${id}.pin`)
    await store.pinCheckpoint('s', id)
    assert.equal(readFileSync(pin).length, 0)
    await store.unpinCheckpoint('s', id)
    assert.equal(existsSync(pin), false)
    await store.pinCheckpoint('s', id)
    await store.deleteCheckpoint('s', id)
    assert.deepEqual(readdirSync(join(base, 's', 'checkpoints')), ['.names'])
  })

  it('outlives the process and counts for other stores', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    const id = await newCheckpointId(store)
    const other = await openStore(base, 2)
    await newCheckpointId(other)
    await store.pinCheckpoint('s', id)
    for (let count = 0; count < 4; count += 1) await newCheckpointId(other)
    await store.close()
    const reopened = await openStore(base, 2)
    assert.deepEqual(await pinnedIds(reopened), [id])
    for (let count = 0; count < 4; count += 1) await newCheckpointId(reopened)
    assert.equal((await checkpointIdsOf(reopened)).at(-1), id)
    assert.equal((await checkpointIdsOf(reopened)).length, 3)
    await reopened.unpinCheckpoint('s', id)
    await newCheckpointId(other)
    assert.equal((await checkpointIdsOf(reopened)).length, 2)
  })

  it('holds against retention in another process', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { maxCheckpointsPerSession: 3, durability: 'relaxed' })
    await newCheckpointId(store)
    const writer = runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)}, { maxCheckpointsPerSession: 3, durability: 'relaxed' })
      await store.initialize()
      for (let n = 0; n < 300; n += 1) {
        const result = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
        if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    `)
    const pinned = new Set()
    await pollDuring(writer, async () => {
      // Retention would remove the oldest too.
      const id = (await checkpointIdsOf(store)).findLast((candidate) => !pinned.has(candidate))
      if (id === undefined) return
      const result = await store.pinCheckpoint('s', id)
      if (result.success) pinned.add(id)
      else assert.equal(result.code, 'WAYMARK_NOT_FOUND')
    })
    assert.deepEqual(await writer, { code: 0, signal: null, stdout: '', stderr: '' })
    const ids = await checkpointIdsOf(store)
    assert.ok(pinned.size > 0)
    for (const id of pinned) assert.ok(ids.includes(id), `${id} was pinned, and is gone`)
    assert.deepEqual(await pinnedIds(store), [...pinned].toSorted().toReversed())
    await newCheckpointId(store)
    assert.ok((await checkpointIdsOf(store)).length <= pinned.size + 3)
  })
})

describe('a pin of a quarantined checkpoint', () => {
  it('is removed', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { path, checkpointId } = await checkpointOf(store, makeSession('s'))
    await store.pinCheckpoint('s', checkpointId)
    truncateSync(path, 10)
    await store.recoverSession('s', { quarantine: true })
    assert.deepEqual(readdirSync(join(base, 's', 'checkpoints')), ['.names'])
  })
})
