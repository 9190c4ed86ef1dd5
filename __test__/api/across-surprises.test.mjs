import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const over = (id, overrides = {}) => makeSession(id, { status: 'paused', expiresAt: 1000, ...overrides })

/** Rewrites a checkpoint so that only the engine can tell that it still means the same. */
function respell(path) {
  const text = readFileSync(path, 'utf8')
  assert.match(text, /"A session"/)
  writeFileSync(path, text.replace('"A session"', '"\\u0041 session"'))
}

describe('a label that is given later', () => {
  // The change runs under the lock of the memory, and asks the memory for the checkpoints of the session.
  it('settles in a store in memory too', async () => {
    const { stdout } = await runNode(
      `const store = new CheckpointStore('memory:')
      await store.initialize()
      const { checkpointId } = await store.createCheckpoint(JSON.parse(process.argv[1]), { trigger: 'auto' })
      await store.labelCheckpoint('s', checkpointId, 'green')
      console.log((await store.listAllCheckpoints({ label: 'green' })).checkpoints.length)`,
      { args: [JSON.stringify(makeSession('s'))], timeout: 10_000 },
    )
    assert.equal(stdout, '1\n')
  })
})

onEveryBackend('sessions past their time', (open) => {
  // The status is the user's text, and was written into the answer as if it were an id. The sessions were archived, and
  // the call rejected with WAYMARK_INTERNAL.
  it('are named with their status, whatever characters it has', async () => {
    for (const status of ['two\nlines', 'back\\slash', 'a\\tab', '\u0000', '"quoted"']) {
      const store = await open()
      await store.saveSession(over('s', { status }))
      assert.deepEqual(await store.expireSessions(2000), [
        { sessionId: 's', status, expiresAt: 1000, action: 'archived' },
      ])
    }
  })
})

describe('sessions past their time, in files', () => {
  // One document that cannot be read rejected the whole call, and those after it stayed as they were.
  it('are not held up by a document that is beyond the limit', async () => {
    const store = await openStore(scratchDirectory(), { maxReadBytes: 6000 })
    await store.saveSession(over('a-large', { metadata: { text: 'x'.repeat(9000) } }))
    await store.saveSession(over('b-small'))
    const ended = await store.expireSessions(2000)
    assert.deepEqual(
      ended.map(({ sessionId }) => sessionId),
      ['b-small'],
    )
  })

  // JSON can spell numbers that no double can hold. The session was archived, and the answer said `inf`.
  it('may have a time that is beyond all numbers', async () => {
    const store = await openStore()
    const { path } = await store.saveSession(over('s'))
    writeFileSync(path, readFileSync(path, 'utf8').replace('"expiresAt": 1000', '"expiresAt": 1e999'))
    assert.deepEqual(await store.expireSessions(Infinity), [])
  })
})

describe('what a new process goes on with', () => {
  // The status came from the last checkpoint that was looked at: the first one below the suspect whose bytes fit.
  it('is judged by the newest whole checkpoint, even if a person has written it anew', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('over', { status: 'active' }))
    respell((await checkpointOf(store, makeSession('over', { status: 'completed' }))).path)
    await checkpointOf(store, makeSession('at work', { status: 'paused' }))
    const newest = await checkpointOf(store, makeSession('at work', { status: 'active' }))
    respell(newest.path)
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, checkpoint }) => [sessionId, status, checkpoint.id]),
      [['at work', 'active', newest.checkpointId]],
    )
  })

  // What a changed checkpoint says of the session is not to be believed.
  it('is not judged by a checkpoint that is damaged', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s', { status: 'paused' }))
    writeFileSync(path, readFileSync(path, 'utf8').replace('"paused"', '"active"'))
    assert.deepEqual(await store.recoverable(), [])
  })

  // The search went on below a suspect, which then turned out to be whole.
  it('names only damaged checkpoints that are newer than the one to go on with', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    truncateSync((await checkpointOf(store, makeSession('s'))).path, 20)
    const newest = await checkpointOf(store, makeSession('s'))
    respell(newest.path)
    const [{ checkpoint, damaged }] = await store.recoverable()
    assert.equal(checkpoint.id, newest.checkpointId)
    assert.deepEqual(damaged, [])
  })

  // Those whose bytes tell that they are damaged came first, those that the engine had to judge last.
  it('names damaged checkpoints newest first, as recoverSession does', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    const cutOff = await checkpointOf(store, makeSession('s'))
    truncateSync(cutOff.path, 20)
    const changed = await checkpointOf(store, makeSession('s'))
    writeFileSync(changed.path, readFileSync(changed.path, 'utf8').replace('task-1', 'task-7'))
    const [{ damaged }] = await store.recoverable()
    const { passedOver } = await store.recoverSession('s')
    assert.deepEqual(
      damaged.map(({ id }) => id),
      [changed.checkpointId, cutOff.checkpointId],
    )
    assert.deepEqual(damaged, passedOver)
  })

  // The damaged document was asked for the name, although the checkpoint had been asked for the status.
  it('has the name that its newest whole checkpoint gives, if the document is damaged', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    const { path } = await store.saveSession(makeSession('s'))
    truncateSync(path, 30)
    const [{ name }] = await store.recoverable()
    assert.equal(name, 'A session')
  })
})

describe('a copy of everything', () => {
  // A directory with any file in it was taken for a session, which then turned out to be none: the copy ended there.
  it('passes over directories that hold nothing of a session', async () => {
    const from = await openStore()
    await from.saveSession(makeSession('s'))
    await from.createSessionDirectory('logs only')
    writeFileSync(join(from.getBaseDir(), 'logs only', 'logs', 'today.log'), 'hello')
    mkdirSync(join(from.getBaseDir(), 'notes'))
    writeFileSync(join(from.getBaseDir(), 'notes', 'readme.md'), 'hello')
    const to = await openStore()
    assert.deepEqual((await from.copyTo(to)).sessions, ['s'])
    assert.deepEqual(await to.listSessions(), ['s'])
  })

  // Names of another form are ordered by file time, which was that of the copy.
  it('keeps the place of checkpoints that a person has named', async () => {
    const from = await openStore()
    const older = await checkpointOf(from, makeSession('s', { name: 'older' }))
    const newer = await checkpointOf(from, makeSession('s', { name: 'newer' }))
    const kept = join(dirname(older.path), 'before-the-move.json')
    copyFileSync(older.path, kept)
    utimesSync(kept, 1_000_000_000, 1_000_000_000)
    assert.equal((await from.getLatestCheckpoint('s')).id, newer.checkpointId)
    const to = await openStore()
    await from.copyTo(to)
    assert.deepEqual(
      (await to.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
      (await from.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
    )
    assert.equal((await to.recoverSession('s')).checkpointId, newer.checkpointId)
  })

  // The link follows a checkpoint that was just written; the one that was interrupted had written it already.
  it('has a link to the newest checkpoint, even if it was interrupted right before that', async () => {
    const from = await openStore()
    await checkpointOf(from, makeSession('s'))
    await from.saveSession(makeSession('s'))
    const base = scratchDirectory()
    await from.copyTo(await openStore(base))
    rmSync(join(base, 's', 'latest'))
    rmSync(join(base, 's', 'session.json'))
    const { documents, unchanged } = await from.copyTo(await openStore(base))
    assert.deepEqual([documents, unchanged], [1, 1])
    assert.ok(existsSync(join(base, 's', 'latest')))
  })
})

onEveryBackend('a copy that is made again', (open) => {
  // A pin in the copy may have been given there: taking it away would let retention remove the checkpoint.
  it('keeps what is pinned in the copy, also if it is no longer pinned in the source', async () => {
    const [from, to] = [await open(), await open()]
    const { checkpointId } = await checkpointOf(from, makeSession('s'))
    await from.pinCheckpoint('s', checkpointId)
    await from.copyTo(to)
    await from.unpinCheckpoint('s', checkpointId)
    await from.copyTo(to)
    const [[source], [copy]] = await Promise.all(
      [from, to].map(async (store) => (await store.listCheckpointInfo('s')).checkpoints),
    )
    assert.deepEqual([source.pinned, copy.pinned], [undefined, true])
    assert.deepEqual({ ...copy, pinned: undefined }, { ...source, pinned: undefined })
  })
})

describe('a line for each session, from files', () => {
  // A tree that is too deep to be measured rejected the whole call.
  it('is not withheld because something else is nested beyond reason', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    mkdirSync(join(base, 'stray', ...Array.from({ length: 70 }, () => 'd')), { recursive: true })
    const infos = await store.sessionsInfo()
    assert.equal(infos.find(({ id }) => id === 's').name, 'A session')
  })

  // Where a clock was set back, the time in the id is ahead of the one in the checkpoint.
  it('has the time of the newest checkpoint as every other list gives it', async () => {
    const base = scratchDirectory()
    const before = await openStore(base)
    const { path, checkpointId } = await checkpointOf(before, makeSession('s'))
    const future = `cp-${(Date.now() + 86_400_000).toString(36)}-000001`
    const { taskCount: _, agentCount: __, integrity: ___, ...checkpoint } = JSON.parse(readFileSync(path, 'utf8'))
    writeFileSync(path, JSON.stringify({ ...checkpoint, id: future }))
    renameSync(path, path.replace(checkpointId, future))
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s'), OPTIONS)
    const [{ newestCheckpoint }] = await store.sessionsInfo()
    const [{ id, timestamp }] = (await store.listCheckpointInfo('s')).checkpoints
    assert.deepEqual(newestCheckpoint, { id, timestamp })
  })
})

describe('deleting the checkpoints of a session, in files', () => {
  // What is no file, and so damaged, rejected the call before the newer ones had their turn.
  it('removes all files, whatever else has the name of a checkpoint', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s'))
    mkdirSync(join(dirname(path), 'cp-1-000001.json'))
    await store.deleteSessionCheckpoints('s').catch(() => {})
    assert.equal(existsSync(path), false)
  })
})
