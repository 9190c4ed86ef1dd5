import assert from 'node:assert/strict'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'

import { rewriteCheckpoint } from '../support/original-format.mjs'
import { runNode } from '../support/processes.mjs'
import { ACTIVE_STATUSES, RESTING_STATUSES, makeSession, makeTask, makeTree } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const idsOf = (lines) => lines.map(({ sessionId }) => sessionId)

/** Rewrites a checkpoint in another spelling of the same JSON value. */
function respell(path) {
  const text = readFileSync(path, 'utf8')
  assert.match(text, /"A session"/)
  writeFileSync(path, text.replace('"A session"', '"\\u0041 session"'))
}

onEveryBackend('recoverable', (open) => {
  it('lists each session whose document has an active status', async () => {
    const store = await open()
    for (const status of [...ACTIVE_STATUSES, ...RESTING_STATUSES, 'archived']) {
      const session = makeSession(status, { status, name: `is ${status}` })
      await checkpointOf(store, session, { ...OPTIONS, label: 'l', description: 'd' })
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress: true, label: 'newest' })
      await store.pinCheckpoint(status, checkpointId)
      await store.saveSession(session)
    }
    const found = await store.recoverable()
    assert.deepEqual(idsOf(found), ACTIVE_STATUSES.toSorted())
    for (const { sessionId, ...line } of found) {
      const [checkpoint] = (await store.listCheckpointInfo(sessionId)).checkpoints
      assert.deepEqual(line, { name: `is ${sessionId}`, status: sessionId, checkpoint, damaged: [] })
      assert.deepEqual([checkpoint.label, checkpoint.pinned], ['newest', true])
    }
  })

  it('lists a session without a document if its newest checkpoint has an active status', async () => {
    const store = await open()
    for (const status of [...ACTIVE_STATUSES, ...RESTING_STATUSES, 'archived']) {
      await checkpointOf(store, makeSession(`was-${status}`, { status: 'paused', name: 'older' }))
      await checkpointOf(store, makeSession(`was-${status}`, { status, name: 'newest' }))
      await checkpointOf(store, makeSession(`then-${status}`, { status }))
      await checkpointOf(store, makeSession(`then-${status}`, { status: 'completed' }))
    }
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, name }) => [sessionId, status, name]),
      ACTIVE_STATUSES.toSorted().map((status) => [`was-${status}`, status, 'newest']),
    )
    for (const { sessionId, checkpoint } of found) {
      assert.equal(checkpoint.id, (await store.getLatestCheckpoint(sessionId)).id)
    }
  })

  it('prefers the document to the checkpoint for the status', async () => {
    const store = await open()
    await checkpointOf(store, makeSession('done', { status: 'active' }))
    await store.saveSession(makeSession('done', { status: 'completed' }))
    await checkpointOf(store, makeSession('begun', { status: 'paused', name: 'of the checkpoint' }))
    await store.saveSession(makeSession('begun', { status: 'resuming', name: 'of the document' }))
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, name }) => [sessionId, status, name]),
      [['begun', 'resuming', 'of the document']],
    )
  })

  it('lists a session without checkpoints', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    await store.agent('s', 'a').save({ iteration: 1 })
    await store.agent('agents only', 'a').save({ status: 'in_progress' })
    await store.createSessionDirectory('empty')
    await store.saveTaskTree('tree only', makeTree())
    assert.deepEqual(await store.recoverable(), [
      { sessionId: 's', name: 'A session', status: 'active', checkpoint: null, damaged: [] },
    ])
  })

  it('omits the name of a session without one', async () => {
    const store = await open()
    await store.saveSession({ id: 'document', status: 'active', name: 5, taskTree: {}, checkpointIds: [] })
    await checkpointOf(store, { id: 'checkpoint', status: 'active', taskTree: {}, checkpointIds: [] })
    await store.saveSession(makeSession('odd', { name: 'two\nlines "quoted" 🟦 \\' }))
    const [checkpoint, document, odd] = await store.recoverable()
    assert.equal('name' in document, false)
    assert.equal('name' in checkpoint, false)
    assert.equal(odd.name, 'two\nlines "quoted" 🟦 \\')
  })

  it('lists nothing in an empty store and for completed sessions', async () => {
    const store = await open()
    assert.deepEqual(await store.recoverable(), [])
    await checkpointOf(store, makeSession('s'))
    const [{ sessionId }] = await store.recoverable()
    assert.equal((await store.recoverSession(sessionId)).success, true)
    assert.equal((await store.recoverable()).length, 1, 'restored, and still at work')
    await store.saveSession(makeSession('s', { status: 'completed' }))
    assert.deepEqual(await store.recoverable(), [])
  })
})

describe('recoverable (files)', () => {
  const DAMAGE = {
    'cut off': [(text) => text.slice(0, text.length / 2), 'WAYMARK_CORRUPT'],
    empty: [() => '', 'WAYMARK_CORRUPT'],
    'no JSON': [() => 'hello', 'WAYMARK_CORRUPT'],
    'no object': [() => '[1, 2]', 'WAYMARK_CORRUPT'],
    'an object of nothing': [() => '{}', 'WAYMARK_CORRUPT'],
    'changed in one value': [(text) => text.replace('task-1', 'task-7'), 'WAYMARK_CHECKSUM_MISMATCH'],
    'changed in its session': [(text) => text.replace('A session', 'B session'), 'WAYMARK_CHECKSUM_MISMATCH'],
    'of a newer version': [(text) => text.replace('1.0.0', '2.0.0'), 'WAYMARK_NEWER_VERSION'],
  }

  /** The same checkpoint with other white space and escapes. */
  const respelt = (text) => JSON.stringify(JSON.parse(text), null, 7).replace('A session', '\\u0041 session')

  for (const compress of [false, true]) {
    for (const [kind, [change, code]] of Object.entries(DAMAGE)) {
      it(`goes back to the checkpoint before one that is ${kind}${compress ? ', compressed' : ''}`, async () => {
        const store = await openStore()
        const good = await checkpointOf(store, makeSession('s'))
        const bad = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
        rewriteCheckpoint(bad.path, change)
        await checkpointOf(store, makeSession('other'))
        for (const isSaved of [false, true]) {
          if (isSaved) await store.saveSession(makeSession('s'))
          const [other, found] = await store.recoverable()
          assert.deepEqual([other.sessionId, other.damaged], ['other', []])
          assert.deepEqual([found.sessionId, found.status, found.name], ['s', 'active', 'A session'])
          assert.equal(found.checkpoint.id, good.checkpointId)
          assert.equal(found.damaged.length, 1)
          const [{ id, path, error, code: why }] = found.damaged
          assert.deepEqual([id, path, why], [bad.checkpointId, bad.path, code])
          assert.ok(error.includes(bad.path), error)
        }
        const { checkpointId } = await store.recoverSession('s')
        assert.equal(checkpointId, good.checkpointId)
      })
    }
  }

  it('lists no checkpoint if none is whole, and no session without a document then', async () => {
    const store = await openStore()
    for (const change of [DAMAGE.empty[0], DAMAGE['changed in one value'][0]]) {
      rewriteCheckpoint((await checkpointOf(store, makeSession('saved'))).path, change)
    }
    await store.saveSession(makeSession('saved'))
    for (const change of [DAMAGE.empty[0], DAMAGE['cut off'][0]]) {
      rewriteCheckpoint((await checkpointOf(store, makeSession('never saved'))).path, change)
    }
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, checkpoint, damaged }) => [sessionId, status, checkpoint, damaged.length]),
      [['saved', 'active', null, 2]],
    )
    const refused = await store.recoverSession('saved')
    assert.deepEqual([refused.success, refused.passedOver.length], [false, 2])
  })

  it('accepts a checkpoint in another spelling', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
    rewriteCheckpoint(path, respelt)
    await store.saveSession(makeSession('s'))
    const [found] = await store.recoverable()
    assert.equal(found.checkpoint.id, checkpointId)
    assert.deepEqual(found.damaged, [])
    assert.equal(found.checkpoint.taskCount, 3)
  })

  it('uses the newest whole checkpoint if the document is damaged', async () => {
    const store = await openStore()
    for (const [id, status] of [
      ['ran', 'active'],
      ['rested', 'paused'],
    ]) {
      await checkpointOf(store, makeSession(id, { status }))
      const { path } = await store.saveSession(makeSession(id, { status }))
      truncateSync(path, 30)
    }
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status }) => [sessionId, status]),
      [['ran', 'active']],
    )
  })

  it('changes nothing', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s'))
    rewriteCheckpoint((await checkpointOf(store, makeSession('s'))).path, respelt)
    rewriteCheckpoint((await checkpointOf(store, makeSession('s'))).path, DAMAGE.empty[0])
    await store.saveSession(makeSession('s'))
    const before = snapshotOf(base)
    await store.recoverable()
    assert.deepEqual(snapshotOf(base), before)
  })

  it('lists what a killed process left, up to the last acknowledged checkpoint', async () => {
    const base = scratchDirectory()
    const taskTree = {
      done: makeTask('done', { status: 'completed' }),
      begun: makeTask('begun', { status: 'in_progress', assignedAgentId: 'a' }),
    }
    const { stdout, stderr } = await runNode(
      `import { writeSync } from 'node:fs'
      const store = new CheckpointStore(process.argv[1])
      await store.initialize()
      const session = JSON.parse(process.argv[2])
      await store.saveSession({ ...session, id: 'finished', status: 'completed' })
      await store.saveSession(session)
      for (let step = 1; ; step += 1) {
        session.metadata = { step }
        const made = store.createCheckpoint(session, {}, { step }, { trigger: 'auto', includeContext: true })
        // Kill it during its work.
        if (step === 8) process.kill(process.pid, 'SIGKILL')
        const { checkpointId } = await made
        session.lastCheckpointId = checkpointId
        session.checkpointIds.push(checkpointId)
        writeSync(1, step + ' ' + checkpointId + '\\n')
      }`,
      { args: [base, JSON.stringify(makeSession('killed', { taskTree }))] },
    )
    const [step, acknowledged] = stdout.trim().split('\n').at(-1).split(' ')
    assert.equal(step, '7', stderr)

    const store = await openStore(base)
    const found = await store.recoverable()
    assert.deepEqual(idsOf(found), ['killed'])
    const [{ name, status, checkpoint, damaged }] = found
    assert.deepEqual([name, status, damaged], ['A session', 'active', []])
    // The pending checkpoint may have been stored.
    const isLater = checkpoint.id !== acknowledged
    assert.equal(checkpoint[isLater ? 'parent' : 'id'], acknowledged)
    const recovered = await store.recoverSession('killed', { resetInProgressTasks: true, includeState: true })
    assert.deepEqual([recovered.success, recovered.checkpointId], [true, checkpoint.id])
    assert.deepEqual(recovered.warnings, ['Reset in-progress task: begun'])
    assert.equal(recovered.state.contextStore.step, isLater ? 8 : 7)
    assert.deepEqual((await store.loadSession('killed')).metadata, { step: isLater ? 8 : 7 })
    assert.equal((await store.loadTaskTree('killed')).begun.status, 'pending')
    assert.equal((await store.verifySession('killed')).whole, true)
    await store.saveSession(makeSession('killed', { status: 'completed' }))
    assert.deepEqual(await store.recoverable(), [])
  })
})

describe('recoverable with damaged checkpoints (files)', () => {
  // The status must come from the returned checkpoint, not from an older one that was read too.
  it('uses the status of the newest whole checkpoint, even in another spelling', async () => {
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

  // The content of a damaged checkpoint must not be used.
  it('does not use the status of a damaged checkpoint', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s', { status: 'paused' }))
    writeFileSync(path, readFileSync(path, 'utf8').replace('"paused"', '"active"'))
    assert.deepEqual(await store.recoverable(), [])
  })

  // A checkpoint in another spelling must end the search.
  it('names only damaged checkpoints newer than the one it returns', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    truncateSync((await checkpointOf(store, makeSession('s'))).path, 20)
    const newest = await checkpointOf(store, makeSession('s'))
    respell(newest.path)
    const [{ checkpoint, damaged }] = await store.recoverable()
    assert.equal(checkpoint.id, newest.checkpointId)
    assert.deepEqual(damaged, [])
  })

  // Both kinds of damage, found by different checks, must be in one order.
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

  // Name and status must come from the same source.
  it('takes the name from the newest whole checkpoint if the document is damaged', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    const { path } = await store.saveSession(makeSession('s'))
    truncateSync(path, 30)
    const [{ name }] = await store.recoverable()
    assert.equal(name, 'A session')
  })
})
