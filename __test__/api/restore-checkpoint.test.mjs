import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { NOT_STRINGS, emptyStore } from '../support/invalid-values.mjs'
import { makeAgent, makeSession, makeTask, withoutTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend } from '../support/stores.mjs'

const CHECKED = { validateChecksum: true, resetFailedTasks: false, resetInProgressTasks: false }

function sessionWithAccidents() {
  return makeSession('s', {
    taskTree: {
      10: makeTask('10', { status: 'in_progress', assignedAgentId: 'a', startedAt: 5, result: { success: true } }),
      root: makeTask('root', { status: 'completed', startedAt: 1, completedAt: 2 }),
      'broken "one"': makeTask('broken "one"', {
        status: 'failed',
        retryCount: 3,
        result: { success: false, output: '' },
        assignedAgentId: 'b',
        startedAt: 3,
        completedAt: 4,
      }),
      '\ud800': makeTask('lone', { status: 'failed' }),
      running: makeTask('running', { status: 'in_progress', assignedAgentId: 'c', startedAt: 6 }),
    },
  })
}

onEveryBackend('restoreCheckpoint', (open) => {
  for (const compress of [false, true]) {
    it(`restores session and task tree from a ${compress ? 'compressed' : 'plain'} checkpoint`, async () => {
      const store = await open()
      const session = makeSession('s')
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress }, { a: makeAgent('a') })
      await store.saveSession({ ...session, name: 'later', status: 'failed' })
      await store.saveTaskTree('s', {})

      const result = await store.restoreCheckpoint({ checkpointId, ...CHECKED })
      assert.deepEqual(result, { success: true, sessionId: 's', restoredTasks: 3, restoredAgents: 1, warnings: [] })
      assert.deepEqual(await store.loadSession('s'), {
        ...withoutTree(session),
        lastCheckpointId: checkpointId,
        checkpointIds: [checkpointId],
      })
      assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    })
  }

  it('accepts every way to name a checkpoint', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    const answers = [
      await store.restoreCheckpoint({ checkpointId }),
      await store.restoreCheckpoint({ checkpointId: `s/${checkpointId}`, ...CHECKED }),
      await store.restoreCheckpoint({ checkpointId, sessionId: 's' }),
      await store.restoreCheckpoint({ checkpointId: `s/${checkpointId}`, sessionId: 's' }),
      await store.restoreCheckpoint('s', checkpointId),
      await store.restoreCheckpoint('s', checkpointId, { validateChecksum: true }),
    ]
    for (const answer of answers) assert.equal(answer.success, true, answer.error)
  })

  it('resets tasks on request and names failed ones first, in tree order', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, sessionWithAccidents())
    const result = await store.restoreCheckpoint({
      checkpointId,
      validateChecksum: true,
      resetFailedTasks: true,
      resetInProgressTasks: true,
    })
    assert.equal(result.restoredTasks, 5)
    assert.deepEqual(result.warnings, [
      'Reset failed task: broken "one"',
      'Reset failed task: \ud800',
      'Reset in-progress task: 10',
      'Reset in-progress task: running',
    ])
    const tree = await store.loadTaskTree('s')
    assert.deepEqual(tree['broken "one"'], makeTask('broken "one"', { status: 'pending' }))
    assert.deepEqual(tree[10], makeTask('10', { status: 'pending', result: { success: true } }))
    assert.deepEqual(tree.running, makeTask('running', { status: 'pending' }))
    assert.deepEqual(tree.root, sessionWithAccidents().taskTree.root)
    assert.deepEqual(Object.keys(tree), Object.keys(sessionWithAccidents().taskTree))
  })

  it('resets only what was asked for', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, sessionWithAccidents())
    const failed = await store.restoreCheckpoint({ checkpointId, resetFailedTasks: true })
    assert.equal(failed.warnings.length, 2)
    const running = await store.restoreCheckpoint({ checkpointId, resetInProgressTasks: true })
    assert.equal(running.warnings.length, 2)
    const none = await store.restoreCheckpoint({ checkpointId })
    assert.deepEqual(none.warnings, [])
    assert.deepEqual(await store.loadTaskTree('s'), sessionWithAccidents().taskTree)
  })

  it('returns agent states and context on request', async () => {
    const store = await open()
    const agents = { a: makeAgent('a'), b: makeAgent('b') }
    const context = { plan: ['x'] }
    const { checkpointId } = await checkpointOf(store, sessionWithAccidents(), OPTIONS, agents, context)
    const { state, restoredAgents } = await store.restoreCheckpoint({
      checkpointId,
      includeState: true,
      resetInProgressTasks: true,
    })
    assert.equal(restoredAgents, 2)
    assert.deepEqual(state.agentStates, agents)
    assert.deepEqual(state.contextStore, context)
    assert.deepEqual(state.session, await store.loadSession('s'))
    assert.deepEqual(state.taskTree, await store.loadTaskTree('s'))
    assert.equal(state.taskTree.running.status, 'pending')
  })

  it('returns a result for a checkpoint that does not exist', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    for (const request of [
      [{ checkpointId: 'cp-none', ...CHECKED }],
      [{ checkpointId: 's/cp-none' }],
      [{ checkpointId: 'cp-none', sessionId: 'unknown' }],
      ['s', 'cp-none'],
    ]) {
      assert.deepEqual(await store.restoreCheckpoint(...request), {
        success: false,
        restoredTasks: 0,
        restoredAgents: 0,
        warnings: [],
        error: `Checkpoint not found: ${request[0].checkpointId ?? 'cp-none'}`,
        code: 'WAYMARK_NOT_FOUND',
      })
    }
  })

  it('restores an older checkpoint over a newer one repeatedly', async () => {
    const store = await open()
    const made = []
    for (const name of ['one', 'two', 'three']) {
      made.push((await checkpointOf(store, makeSession('s', { name }))).checkpointId)
    }
    for (const index of [0, 2, 1, 0]) {
      await store.restoreCheckpoint('s', made[index])
      const session = await store.loadSession('s')
      assert.equal(session.name, ['one', 'two', 'three'][index])
      assert.equal(session.lastCheckpointId, made[index])
    }
  })
})

describe('restoreCheckpoint arguments', () => {
  it('every invalid form of naming a checkpoint is rejected', async () => {
    const { store, isUntouched } = await emptyStore()
    const bad = [
      [[{ checkpointId: '../x/y' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/../cp' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: '/cp' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 'cp', sessionId: '..' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/cp', sessionId: 'other' }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', sessionId: 5 }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{}], 'WAYMARK_INVALID_ARGUMENT'],
      [['s'], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 7], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 'cp', 'options'], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 'cp', { validateChecksum: 'yes' }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', resetFailedTasks: 1 }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', resetInProgressTasks: null }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', includeState: {} }], 'WAYMARK_INVALID_ARGUMENT'],
      ...NOT_STRINGS.filter(([value]) => value === null || typeof value !== 'object').map(([value]) => [
        [value],
        'WAYMARK_INVALID_ARGUMENT',
      ]),
    ]
    for (const [args, code] of bad) {
      const result = await store.restoreCheckpoint(...args)
      assert.equal(result.success, false)
      assert.equal(result.code, code, result.error)
      assert.deepEqual([result.restoredTasks, result.restoredAgents, result.warnings], [0, 0, []])
    }
    isUntouched()
  })
})
