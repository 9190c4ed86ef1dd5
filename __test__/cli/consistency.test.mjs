import assert from 'node:assert/strict'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { assertRefused, jsonDocumentOf } from '../support/cli-output.mjs'
import { CONCURRENT, waymark } from '../support/command.mjs'
import { makeSession, makeTask } from '../support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

const treeOf = (...statuses) =>
  Object.fromEntries(statuses.map((status, at) => [`t${at}`, makeTask(`t${at}`, { status })]))

describe('the commands agree', CONCURRENT, () => {
  let location
  const ids = []

  before(async () => {
    location = scratchDirectory()
    const store = await openStore(location, { durability: 'relaxed' })
    // An orchestrator that saves its session at the start, and then only takes checkpoints.
    const begun = makeSession('begun', { status: 'initializing' })
    await store.saveSession(begun)
    const taskTree = treeOf('completed', 'failed', 'in_progress', 'blocked', 'blocked', 'cancelled', 'odd')
    await checkpointOf(store, { ...begun, status: 'paused', taskTree })
    // One that saves it again at the end.
    const done = makeSession('done', { taskTree: treeOf('in_progress') })
    await checkpointOf(store, done)
    await store.saveSession({
      ...done,
      status: 'completed',
      metrics: { ...done.metrics, totalTasks: 1, completedTasks: 1 },
    })
    // Many sessions that were never saved.
    for (let number = 0; number < 60; number += 1) await checkpointOf(store, makeSession(`unsaved-${number}`))
    const long = makeSession('long')
    for (let number = 0; number < 5; number += 1) {
      long.lastCheckpointId = (await checkpointOf(store, long)).checkpointId
      ids.unshift(long.lastCheckpointId)
    }
    await store.agent('agents alone', 'writer').save({ iteration: 1 })
    await store.close()
  })

  const printed = async (...args) => {
    const { code, stdout, stderr } = await waymark([...args, '--store', location])
    assert.equal(code, 0, stderr)
    return stdout
  }
  const document = async (...args) => jsonDocumentOf(await waymark([...args, '--store', location, '--json']))

  it('on the newest checkpoint of a running session', async () => {
    const row = (await printed('ls')).split('\n').find((line) => line.startsWith('begun'))
    assert.match(row, /paused .* 1\/7/)
    assert.match(await printed('show', 'begun'), /status +paused.*1\/7 done/s)
  })

  it('on the saved state of a completed session', async () => {
    const row = (await printed('ls')).split('\n').find((line) => line.startsWith('done'))
    assert.match(row, /completed .* 1\/1/)
  })

  it('on all sessions, saved or not', async () => {
    const { sessions, total } = await document('ls')
    assert.equal(total, sessions.length)
    const silent = sessions.filter(({ status, tasks }) => !status || !tasks)
    assert.deepEqual(
      silent.map(({ id }) => id),
      ['agents alone'],
    )
  })

  it('on the number of tasks in each status', async () => {
    assert.match(await printed('show', 'begun'), /1\/7 done, 1 failed, 1 in progress, 2 blocked, 1 cancelled, 1 other/)
  })

  it('on --limit and the total', async () => {
    const log = await printed('log', 'long', '-n', '3')
    assert.doesNotMatch(log, /its parent was deleted/)
    assert.equal(log.match(/cp-/g).length, 3)
    assert.match(log, /3 of 5 shown/)
    const { checkpoints, total } = await document('log', 'long', '-n', '3')
    assert.deepEqual([checkpoints.map(({ id }) => id), total], [ids.slice(0, 3), 5])
    assert.match(await printed('ls', '-n', '2'), /2 of 64 sessions/)
    assert.equal((await document('ls', '-n', '2')).total, 64)
    for (const args of [['ls'], ['ls', 'long'], ['log', 'long']]) {
      assertRefused(await waymark([...args, '-n', '0', '--store', location]), /at least 1/, { next: /--limit/ })
    }
  })

  it('on a session in which only agents have checkpoints', async () => {
    for (const command of ['ls', 'log']) {
      assert.match(await printed(command, 'agents alone'), /waymark ls 'agents alone' --agents --store .* lists those/)
    }
  })

  it('on a session that was imported under another id', async () => {
    const file = join(scratchDirectory(), 'long.zst')
    const target = scratchDirectory()
    await printed('export', 'long', file)
    for (const as of ['long', 'renamed']) assert.equal((await waymark(['import', file, target, '--as', as])).code, 0)
    const store = await openStore(target)
    await store.acquireSession('long', { owner: 'worker-1', ttlMs: 60_000 })
    const { stdout } = await waymark(['show', 'renamed', target])
    assert.match(stdout, /^renamed\b/)
    assert.doesNotMatch(stdout, /worker-1/)
    await store.close()
  })
})
