import assert from 'node:assert/strict'
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'

import { makeSession, throughJson } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const ids = (page) => page.checkpoints.map(({ id }) => id)

const QUICK = { durability: 'relaxed' }

onEveryBackend('deleteSessionCheckpoints', (open) => {
  it('deletes pinned and compressed checkpoints too and keeps everything else', async () => {
    const store = await open()
    const session = makeSession('s')
    await store.saveSession(session)
    await store.saveTaskTree('s', session.taskTree)
    await store.saveTaskResult('s', 'task-0', 42)
    for (const compress of [false, true, false, true]) {
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress, label: 'l' })
      await store.pinCheckpoint('s', checkpointId)
    }
    await checkpointOf(store, session)
    const agent = store.agent('s', 'writer')
    await agent.save({ iteration: 1 })
    await checkpointOf(store, makeSession('other'))
    assert.equal(await store.deleteSessionCheckpoints('s'), 5)
    assert.deepEqual(await store.listCheckpointInfo('s'), { checkpoints: [], total: 0, damaged: [] })
    assert.equal(await store.getLatestCheckpoint('s'), null)
    assert.deepEqual(await store.loadSession('s'), throughJson({ ...session, taskTree: undefined }))
    assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    assert.equal(await store.loadTaskResult('s', 'task-0'), 42)
    assert.equal((await agent.list()).total, 1)
    assert.equal((await store.listAllCheckpoints()).checkpoints[0].sessionId, 'other')
    const [, info] = await store.sessionsInfo()
    assert.deepEqual([info.checkpointCount, info.pinnedCount, info.agentCheckpointCount], [0, 0, 1])
    assert.equal('newestCheckpoint' in info, false)
    assert.equal(await store.deleteSessionCheckpoints('s'), 0)
  })

  it('lets the session create as many checkpoints as before', async () => {
    const store = await open(2)
    for (let round = 0; round < 3; round += 1) {
      for (let number = 0; number < 3; number += 1) await checkpointOf(store, makeSession('s'))
      assert.equal((await store.listCheckpointInfo('s')).total, 2)
      assert.equal(await store.deleteSessionCheckpoints('s'), 2)
    }
  })

  it('deletes nothing for a session without checkpoints or an unknown one', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    assert.equal(await store.deleteSessionCheckpoints('s'), 0)
    assert.equal(await store.deleteSessionCheckpoints('unknown'), 0)
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('rejects an invalid id', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    for (const id of [undefined, null, 5, {}, ['s'], Symbol('s')]) {
      await assert.rejects(store.deleteSessionCheckpoints(id), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^sessionId must be a string; got /,
      })
    }
    for (const id of ['', '.', '..', '../s', 's/', 'CON', 'x'.repeat(201)]) {
      await assert.rejects(store.deleteSessionCheckpoints(id), { code: 'WAYMARK_INVALID_ID' })
    }
    assert.deepEqual(ids(await store.listCheckpointInfo('s')), [checkpointId])
  })
})

describe('deleteSessionCheckpoints (files)', () => {
  it('removes the link to the newest and all pins, and keeps foreign files', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    await store.pinCheckpoint('s', checkpointId)
    const bad = await checkpointOf(store, makeSession('s'))
    truncateSync(bad.path, 10)
    writeFileSync(join(base, 's', 'checkpoints', 'notes.txt'), 'mine')
    assert.equal(await store.deleteSessionCheckpoints('s'), 2)
    assert.equal(existsSync(join(base, 's', 'latest')), false)
    assert.equal(existsSync(join(base, 's', 'checkpoints', `${checkpointId}.pin`)), false)
    assert.equal(existsSync(join(base, 's', 'checkpoints', 'notes.txt')), true)
  })

  it('counts each checkpoint once when two stores call it at once', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, QUICK), await openStore(base, QUICK)]
    for (let number = 0; number < 20; number += 1) await checkpointOf(stores[0], makeSession('s'))
    const gone = await Promise.all(stores.map((store) => store.deleteSessionCheckpoints('s')))
    assert.equal(gone[0] + gone[1], 20)
    assert.equal((await stores[0].listCheckpointInfo('s')).total, 0)
  })
})

describe('deleteSessionCheckpoints with a directory named like a checkpoint (files)', () => {
  // A directory cannot be deleted as a file; the others must be deleted all the same.
  it('removes all checkpoint files', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s'))
    mkdirSync(join(dirname(path), 'cp-1-000001.json'))
    await store.deleteSessionCheckpoints('s').catch(() => {})
    assert.equal(existsSync(path), false)
  })
})
