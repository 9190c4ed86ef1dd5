import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'

import { integrityOf, originalChecksum } from '../support/original-format.mjs'
import { makeAgent, makeSession, makeTask, withoutTree } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  OPTIONS,
  checkpointOf,
  forkOf,
  newCheckpointId,
  onEveryBackend,
  openStore,
  scratchDirectory,
  successesIn,
} from '../support/stores.mjs'

const AGENTS = { a: makeAgent('a'), b: makeAgent('b') }
const CONTEXT = { plan: ['x', 'y'], 'odd "key"': { __proto__: null, deep: [[1e21, -0, null]] } }

function sessionWithAccidents(id = 's') {
  return makeSession(id, {
    name: 'Zürich',
    metadata: { team: 'blue' },
    taskTree: {
      10: makeTask('10', { status: 'in_progress', assignedAgentId: 'a', startedAt: 5 }),
      root: makeTask('root', { status: 'completed', completedAt: 2 }),
      'broken "one"': makeTask('broken "one"', {
        status: 'failed',
        retryCount: 3,
        result: { success: false, output: '' },
        completedAt: 4,
      }),
    },
  })
}

/** A checkpoint with agents and context as the source of forks. */
async function sourceOf(store, options = {}) {
  return checkpointOf(store, sessionWithAccidents(), { ...OPTIONS, ...options }, AGENTS, CONTEXT)
}

/** Everything readable of a session. */
async function readingsOf(store, id) {
  return {
    session: await store.loadSession(id),
    tree: await store.loadTaskTree(id),
    checkpoints: await store.listCheckpoints(id),
    infos: await store.listCheckpointInfo(id),
    usage: await store.getSessionStorageStats(id),
  }
}

onEveryBackend('forkSession', (open) => {
  for (const compress of [false, true]) {
    it(`from a ${compress ? 'compressed' : 'plain'} checkpoint creates an independent session with its whole state`, async () => {
      const store = await open()
      const { checkpointId } = await sourceOf(store, { compress, label: 'green', metadata: { build: 1 } })
      const result = await forkOf(store, checkpointId, 'fork')
      assert.deepEqual(Object.keys(result).toSorted(), [
        'checkpointId',
        'path',
        'restoredAgents',
        'restoredTasks',
        'sessionId',
        'success',
        'warnings',
      ])
      assert.deepEqual([result.sessionId, result.restoredTasks, result.restoredAgents], ['fork', 3, 2])
      assert.deepEqual(result.warnings, [])
      assert.notEqual(result.checkpointId, checkpointId)

      const origin = { sessionId: 's', checkpointId }
      const expected = {
        ...withoutTree(sessionWithAccidents('fork')),
        lastCheckpointId: result.checkpointId,
        checkpointIds: [result.checkpointId],
        forkedFrom: origin,
      }
      assert.deepEqual(await store.loadSession('fork'), expected)
      assert.deepEqual(await store.loadTaskTree('fork'), sessionWithAccidents().taskTree)
      const { checkpoints, total } = await store.listCheckpoints('fork')
      assert.equal(total, 1)
      const [first] = checkpoints
      const source = await store.getCheckpoint('s', checkpointId)
      assert.deepEqual([first.id, first.sessionId], [result.checkpointId, 'fork'])
      assert.deepEqual(first.session, expected)
      for (const part of ['taskTree', 'agentStates', 'contextStore', 'version', 'taskCount', 'agentCount']) {
        assert.deepEqual(first[part], source[part], part)
      }
      assert.equal('parent' in first || 'label' in first, false)
      assert.equal(first.checksum, originalChecksum(first))
      assert.equal(first.integrity, integrityOf({ ...first, sizeBytes: 0 }))
      const [fork, original] = await store.sessionsInfo()
      assert.deepEqual([fork.id, fork.forkedFrom, fork.checkpointCount], ['fork', origin, 1])
      assert.equal('forkedFrom' in original, false)
    })
  }

  it('leaves the source unchanged', async () => {
    const store = await open({ maxCheckpointsPerSession: 1, keepPrevious: 1 })
    await store.saveSession(sessionWithAccidents())
    await store.saveTaskTree('s', {})
    const { checkpointId } = await sourceOf(store)
    const before = await readingsOf(store, 's')
    const { checkpointId: first } = await forkOf(store, checkpointId, 'fork', { resetFailedTasks: true })
    await checkpointOf(store, makeSession('fork', { lastCheckpointId: first }))
    await store.deleteSession('fork')
    assert.deepEqual(await readingsOf(store, 's'), before)
  })

  it('resets tasks as a restore does, in tree and checkpoint, and names them', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    const wishes = [
      [{}, []],
      [{ resetFailedTasks: true }, ['Reset failed task: broken "one"']],
      [{ resetInProgressTasks: true }, ['Reset in-progress task: 10']],
      [
        { resetFailedTasks: true, resetInProgressTasks: true },
        ['Reset failed task: broken "one"', 'Reset in-progress task: 10'],
      ],
    ]
    for (const [index, [resets, warnings]] of wishes.entries()) {
      const result = await forkOf(store, checkpointId, `fork ${index}`, resets)
      assert.deepEqual(result.warnings, warnings)
      const restored = await store.restoreCheckpoint({ sessionId: 's', checkpointId, includeState: true, ...resets })
      assert.deepEqual(restored.warnings, warnings)
      assert.deepEqual(await store.loadTaskTree(`fork ${index}`), restored.state.taskTree)
      const first = await store.getCheckpoint(`fork ${index}`, result.checkpointId)
      assert.deepEqual(first.taskTree, restored.state.taskTree)
      assert.equal((await store.verifySession(`fork ${index}`)).whole, true)
    }
  })

  it('records the source of each fork, also of a fork of a fork', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    const first = await forkOf(store, checkpointId, 'first')
    const second = await store.forkSession({
      sessionId: 'first',
      checkpointId: first.checkpointId,
      newSessionId: 'second',
      resetFailedTasks: true,
    })
    assert.equal(second.success, true, second.error)
    assert.deepEqual((await store.loadSession('first')).forkedFrom, { sessionId: 's', checkpointId })
    assert.deepEqual((await store.loadSession('second')).forkedFrom, {
      sessionId: 'first',
      checkpointId: first.checkpointId,
    })
    const { contextStore, agentStates } = await store.getLatestCheckpoint('second')
    assert.deepEqual([contextStore, agentStates], [(await store.getLatestCheckpoint('s')).contextStore, AGENTS])
    await store.deleteSession('s')
    await store.deleteSession('first')
    assert.equal((await store.recoverSession('second')).success, true)
  })

  it('gives a session that can be restored, checkpointed and pruned', async () => {
    const store = await open(2)
    const { checkpointId } = await sourceOf(store)
    const first = await forkOf(store, checkpointId, 'fork')
    const byPlainId = await store.restoreCheckpoint({ checkpointId: first.checkpointId, includeState: true })
    assert.equal(byPlainId.sessionId, 'fork')
    const { session, taskTree } = byPlainId.state
    assert.deepEqual(session.forkedFrom, { sessionId: 's', checkpointId })
    let last = first.checkpointId
    for (let count = 0; count < 3; count += 1) {
      last = (await checkpointOf(store, { ...session, taskTree, lastCheckpointId: last })).checkpointId
    }
    assert.equal((await store.listCheckpointInfo('fork')).total, 2)
    const recovered = await store.recoverSession('fork')
    assert.equal(recovered.checkpointId, last)
    assert.deepEqual((await store.loadSession('fork')).forkedFrom, { sessionId: 's', checkpointId })
    assert.equal((await store.listCheckpointInfo('s')).total, 1)
  })

  it('changes only name and origin', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store, { compress: true })
    const fork = await forkOf(store, checkpointId, 'fork')
    const diff = await store.diffCheckpoints(`s/${checkpointId}`, `fork/${fork.checkpointId}`)
    for (const part of [diff.tasks, diff.agents, diff.context]) {
      assert.deepEqual(part, { added: [], removed: [], changed: [] })
    }
    assert.deepEqual(diff.session.toSorted(), ['forkedFrom', 'id'])
  })

  it('keeps a checkpoint without agents and context without them', async () => {
    const store = await open()
    const { checkpointId } = await store.createCheckpoint(makeSession('s', { taskTree: {} }), { trigger: 'auto' })
    const result = await forkOf(store, checkpointId, 'fork')
    assert.deepEqual([result.restoredTasks, result.restoredAgents], [0, 0])
    assert.deepEqual(await store.loadTaskTree('fork'), {})
  })

  it('accepts ids that JSON has to escape', async () => {
    const store = await open()
    const [source, fork] = process.platform === 'win32' ? ['a é🧭', 'b ü'] : ['a "b" é🧭', 'c "d" ü']
    const { checkpointId } = await checkpointOf(store, makeSession(source))
    const result = await store.forkSession({ sessionId: source, checkpointId, newSessionId: fork })
    assert.equal(result.sessionId, fork, result.error)
    assert.deepEqual((await store.loadSession(fork)).forkedFrom, { sessionId: source, checkpointId })
    assert.deepEqual((await store.history(source)).checkpoints[0].forks, [fork])
    assert.deepEqual((await store.history(fork)).forkedFrom, { sessionId: source, checkpointId })
    assert.equal((await store.verifySession(fork)).whole, true)
  })

  it('rejects an existing target and changes neither session', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    await store.saveSession(makeSession('saved'))
    await checkpointOf(store, makeSession('checkpointed'))
    for (const newSessionId of ['saved', 'checkpointed', 's']) {
      const before = [await readingsOf(store, newSessionId), await readingsOf(store, 's')]
      const refused = await store.forkSession({ sessionId: 's', checkpointId, newSessionId })
      assert.deepEqual([refused.success, refused.code], [false, 'WAYMARK_EXISTS'])
      assert.match(refused.error, new RegExp(`^Session ${newSessionId} exists already\\. `))
      assert.deepEqual([refused.restoredTasks, refused.restoredAgents, refused.warnings], [0, 0, []])
      assert.deepEqual([await readingsOf(store, newSessionId), await readingsOf(store, 's')], before)
    }
    await store.deleteSession('saved')
    await forkOf(store, checkpointId, 'saved')
  })

  it('rejects a source that does not exist and creates nothing', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    for (const [sessionId, id] of [
      ['s', 'cp-none'],
      ['unknown', checkpointId],
      ['fork', checkpointId],
    ]) {
      const refused = await store.forkSession({ sessionId, checkpointId: id, newSessionId: 'fork' })
      assert.deepEqual(refused, {
        success: false,
        restoredTasks: 0,
        restoredAgents: 0,
        warnings: [],
        error: `Checkpoint not found: ${id} in session ${sessionId}`,
        code: 'WAYMARK_NOT_FOUND',
      })
    }
    assert.deepEqual(await store.listSessions(), [])
    assert.equal((await store.sessionsInfo()).length, 1)
  })

  it('checks ids and options', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    const good = { sessionId: 's', checkpointId, newSessionId: 'fork' }
    const bad = [
      [undefined, 'WAYMARK_INVALID_ARGUMENT', /^options must be an object; got undefined/],
      [null, 'WAYMARK_INVALID_ARGUMENT', /^options must be an object; got null/],
      ['s', 'WAYMARK_INVALID_ARGUMENT', /^options must be an object/],
      [[good], 'WAYMARK_INVALID_ARGUMENT', /^options must be an object; got an array/],
      [
        { ...good, resetFailedTasks: 1 },
        'WAYMARK_INVALID_ARGUMENT',
        /^options\.resetFailedTasks must be true or false/,
      ],
      [
        { ...good, resetInProgressTasks: null },
        'WAYMARK_INVALID_ARGUMENT',
        /^options\.resetInProgressTasks must be true or false/,
      ],
    ]
    for (const name of ['sessionId', 'checkpointId', 'newSessionId']) {
      for (const value of [undefined, null, 7, {}, ['s'], Symbol('s')]) {
        const message = new RegExp(`^options\\.${name} must be a string; got `)
        bad.push([{ ...good, [name]: value }, 'WAYMARK_INVALID_ARGUMENT', message])
      }
      for (const value of ['', '..', '../up', 'a/b', 'CON', '\0', 'x'.repeat(201)]) {
        bad.push([{ ...good, [name]: value }, 'WAYMARK_INVALID_ID', /^Invalid (session|checkpoint) id "/])
      }
    }
    for (const [options, code, message] of bad) {
      const refused = await store.forkSession(options)
      assert.deepEqual([refused.success, refused.code], [false, code], refused.error)
      assert.match(refused.error, message)
      assert.deepEqual([refused.restoredTasks, refused.restoredAgents, refused.warnings], [0, 0, []])
    }
    assert.equal((await store.sessionsInfo()).length, 1)
  })

  it('creates many forks concurrently', async () => {
    const store = await open()
    const { checkpointId } = await sourceOf(store)
    const names = Array.from({ length: 20 }, (_, index) => `fork ${String(index).padStart(2, '0')}`)
    const results = await Promise.all(names.map((name) => forkOf(store, checkpointId, name)))
    assert.equal(new Set(results.map((result) => result.checkpointId)).size, 20)
    const [node] = (await store.history('s')).checkpoints
    assert.deepEqual(node.forks, names)
  })
})

describe('forkSession (files)', () => {
  it('creates its own directory and keeps the source files byte for byte', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(sessionWithAccidents())
    const { checkpointId } = await sourceOf(store, { compress: true })
    await store.pinCheckpoint('s', checkpointId)
    await store.labelCheckpoint('s', checkpointId, 'base line')
    const before = snapshotOf(join(base, 's'))
    const { path, checkpointId: first } = await forkOf(store, checkpointId, 'fork', { resetFailedTasks: true })
    assert.deepEqual(snapshotOf(join(base, 's')), before)
    assert.equal(path, join(base, 'fork', 'checkpoints', `${first}.json`))
    assert.deepEqual(readdirSync(join(base, 'fork')).toSorted(), [
      'checkpoints',
      'latest',
      'session.json',
      'task-tree.json',
    ])
    const reopened = await openStore(base)
    assert.equal((await reopened.verifySession('fork')).whole, true)
    assert.equal((await reopened.loadSession('fork')).id, 'fork')
  })

  for (const compress of [false, true]) {
    it(`reads a checkpoint in another spelling${compress ? ', compressed' : ''}`, async () => {
      const store = await openStore()
      const { checkpointId, path } = await sourceOf(store, { compress })
      const text = (compress ? gunzipSync(readFileSync(path)) : readFileSync(path)).toString()
      const edited = JSON.stringify(JSON.parse(text), null, '\t').replaceAll('ü', '\\u00fc')
      assert.notEqual(edited, text)
      writeFileSync(path, compress ? gzipSync(edited) : edited)
      const result = await forkOf(store, checkpointId, 'fork', { resetInProgressTasks: true })
      assert.deepEqual(result.warnings, ['Reset in-progress task: 10'])
      assert.equal((await store.loadSession('fork')).name, 'Zürich')
      assert.deepEqual((await store.getLatestCheckpoint('fork')).agentStates, AGENTS)
      assert.equal((await store.verifySession('fork')).whole, true)
    })
  }

  it('reads checkpoints of the original store', async () => {
    const base = scratchDirectory()
    cpSync(fileURLToPath(new URL('../fixtures/original-store/sessions', import.meta.url)), base, { recursive: true })
    const store = await openStore(base)
    const before = snapshotOf(base)
    const { checkpoints } = await store.listAllCheckpoints()
    assert.ok(checkpoints.length > 1)
    for (const [index, { sessionId, id }] of checkpoints.entries()) {
      const newSessionId = `fork ${index}`
      const result = await store.forkSession({ sessionId, checkpointId: id, newSessionId })
      assert.equal(result.success, true, result.error)
      const [source, fork] = [await store.getCheckpoint(sessionId, id), await store.getLatestCheckpoint(newSessionId)]
      assert.deepEqual(fork.taskTree, source.taskTree)
      assert.deepEqual(fork.contextStore, source.contextStore)
    }
    const after = snapshotOf(base)
    for (const name of Object.keys(before)) assert.deepEqual(after[name], before[name])
  })

  const DAMAGE = {
    'cut off': [(text) => text.slice(0, text.length / 2), 'WAYMARK_CORRUPT'],
    'with one value changed': [(text) => text.replace('completed', 'Completed'), 'WAYMARK_CHECKSUM_MISMATCH'],
    'with its session changed': [(text) => text.replace('blue', 'red'), 'WAYMARK_CHECKSUM_MISMATCH'],
    'of a newer version': [(text) => text.replace('1.0.0', '2.0.0'), 'WAYMARK_NEWER_VERSION'],
    'of another name': [(text) => text.replace(/cp-[0-9a-z]+-[0-9a-z]+/, 'cp-other'), 'WAYMARK_CORRUPT'],
  }
  for (const [kind, [change, code]] of Object.entries(DAMAGE)) {
    it(`rejects a checkpoint that is ${kind}`, async () => {
      const base = scratchDirectory()
      const store = await openStore(base)
      for (const compress of [false, true]) {
        const { checkpointId, path } = await sourceOf(store, { compress })
        const text = (compress ? gunzipSync(readFileSync(path)) : readFileSync(path)).toString()
        assert.notEqual(change(text), text)
        writeFileSync(path, compress ? gzipSync(change(text)) : change(text))
        const before = snapshotOf(base)
        const refused = await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
        assert.deepEqual([refused.success, refused.code], [false, code], refused.error)
        assert.deepEqual(snapshotOf(base), before)
      }
    })
  }

  it('rejects a target whose name is taken by a file, and keeps the file', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await sourceOf(store)
    writeFileSync(join(base, 'fork'), 'mine')
    const before = snapshotOf(base)
    const refused = await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
    assert.equal(refused.code, 'WAYMARK_EXISTS')
    assert.deepEqual(snapshotOf(base), before)
  })

  it('accepts directories that createSessionDirectory made', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await sourceOf(store)
    await store.createSessionDirectory('fork')
    mkdirSync(join(base, 'empty'))
    await forkOf(store, checkpointId, 'fork')
    await forkOf(store, checkpointId, 'empty')
    assert.equal((await store.listSessions()).length, 2)
  })
})

onEveryBackend('forkSession to one target', (open) => {
  it('succeeds once for concurrent calls', async () => {
    const store = await open()
    const checkpointId = await newCheckpointId(store)
    for (let round = 0; round < 10; round += 1) {
      const newSessionId = `fork ${round}`
      const calls = Array.from({ length: 3 }, () => store.forkSession({ sessionId: 's', checkpointId, newSessionId }))
      const results = await Promise.all(calls)
      assert.equal(successesIn(results), 1)
      for (const { success, code } of results) assert.ok(success || code === 'WAYMARK_EXISTS', code)
      assert.equal((await store.listCheckpointInfo(newSessionId)).total, 1)
    }
  })

  it('is rejected where a task tree, a result or an agent exists', async () => {
    const store = await open()
    const checkpointId = await newCheckpointId(store)
    const tree = { kept: makeTask('kept') }
    await store.saveTaskTree('tree', tree)
    await store.saveTaskResult('result', 't', 1)
    await store.agent('agent', 'a').save({ iteration: 1 })
    for (const newSessionId of ['tree', 'result', 'agent']) {
      const { code } = await store.forkSession({ sessionId: 's', checkpointId, newSessionId })
      assert.equal(code, 'WAYMARK_EXISTS', newSessionId)
    }
    assert.deepEqual(await store.loadTaskTree('tree'), tree)
  })
})

describe('a failed forkSession', () => {
  it('leaves nothing behind and can be repeated', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const checkpointId = await newCheckpointId(store)
    mkdirSync(join(base, 'fork'))
    writeFileSync(join(base, 'fork', 'notes.txt'), 'mine')
    const refused = await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
    assert.equal(refused.code, 'WAYMARK_EXISTS')
    assert.deepEqual(readdirSync(base).toSorted(), ['fork', 's'])
    assert.deepEqual(readdirSync(join(base, 'fork')), ['notes.txt'])
    rmSync(join(base, 'fork', 'notes.txt'))
    const again = await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'fork' })
    assert.equal(again.success, true)
  })
})
