import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'

import { runNode } from '../support/processes.mjs'
import { makeSession, makeTask, makeTree, throughJson, withoutTree } from '../support/sessions.mjs'
import { isLockFile } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const RUNNING = ['initializing', 'active', 'resuming', 'completing']
const AT_REST = ['paused', 'completed', 'failed']

const HOUR = 3_600_000

/** A session that nobody works on, and whose time was over long ago. */
const over = (id, overrides = {}) => makeSession(id, { status: 'paused', expiresAt: 1000, ...overrides })

const statusOf = async (store, id) => (await store.loadSession(id)).status

const idsOf = (lines) => lines.map(({ sessionId }) => sessionId)

/** The names and bytes of all files below a directory. */
function snapshot(base) {
  const files = readdirSync(base, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !isLockFile(entry.name),
  )
  const paths = files.map((file) => join(file.parentPath ?? file.path, file.name)).toSorted()
  return paths.map((path) => [path, readFileSync(path, 'latin1')])
}

onEveryBackend('sessions past their time', (open) => {
  it('are archived, and nothing else of them changes', async () => {
    const store = await open()
    const session = over('s', {
      name: 'two\nlines "quoted" \\ 🟦 \ud800',
      metadata: JSON.parse('{"2": 1e21, "1": 5e-324, "status": "active", "__proto__": {"deep": [[], {}]}, "": null}'),
      errors: [{ status: 'active', message: 'expiresAt' }],
      own: { kept: true },
    })
    await store.saveSession(session)
    await store.saveTaskTree('s', session.taskTree)
    await store.saveTaskResult('s', 'task-0', 'done')
    await checkpointOf(store, session)
    await store.agent('s', 'a').save({ iteration: 1 })
    const before = await store.loadSession('s')
    const { checkpoints } = await store.listCheckpoints('s')
    assert.deepEqual(await store.expireSessions(2000), [
      { sessionId: 's', status: 'paused', expiresAt: 1000, action: 'archived' },
    ])
    const after = await store.loadSession('s')
    assert.deepEqual(Object.keys(after), Object.keys(before))
    for (const [member, value] of Object.entries(before)) {
      const expected = member === 'status' ? 'archived' : value
      assert.equal(JSON.stringify(after[member]), JSON.stringify(expected), member)
    }
    assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    assert.equal(await store.loadTaskResult('s', 'task-0'), 'done')
    assert.deepEqual((await store.listCheckpoints('s')).checkpoints, checkpoints)
    assert.equal((await store.agent('s', 'a').list()).total, 1)
    assert.equal((await store.verifySession('s')).whole, true)
    assert.equal((await store.sessionsInfo())[0].status, 'archived')
  })

  it('are deleted if that is asked for, with all that they have', async () => {
    const store = await open()
    await store.saveSession(over('gone', { status: 'failed' }))
    await checkpointOf(store, over('gone'))
    await store.agent('gone', 'a').save({ iteration: 1 })
    await store.saveSession(over('kept', { expiresAt: 3000 }))
    assert.deepEqual(await store.expireSessions(2000, { action: 'delete' }), [
      { sessionId: 'gone', status: 'failed', expiresAt: 1000, action: 'deleted' },
    ])
    assert.deepEqual(await store.listSessions(), ['kept'])
    assert.equal(await store.loadSession('gone'), null)
    assert.equal((await store.listAllCheckpoints()).total, 0)
    assert.deepEqual(await store.listAgents('gone'), [])
    assert.equal(await statusOf(store, 'kept'), 'paused')
    const again = await checkpointOf(store, makeSession('gone'))
    assert.equal(again.success, true)
  })

  for (const action of ['archive', 'delete']) {
    it(`that somebody works on are left alone, and all others are not, if asked to ${action}`, async () => {
      const store = await open()
      for (const status of [...RUNNING, ...AT_REST]) await store.saveSession(over(status, { status }))
      for (const expiresAt of [-1e300, -1, 0]) {
        for (const status of RUNNING) await store.saveSession(over(`${status}${expiresAt}`, { status, expiresAt }))
      }
      const ended = await store.expireSessions(Infinity, { action })
      assert.deepEqual(
        ended.map(({ sessionId, status }) => [sessionId, status]),
        AT_REST.toSorted().map((status) => [status, status]),
      )
      const left = await store.listSessions()
      assert.equal(left.length, 16 + (action === 'archive' ? 3 : 0))
      for (const id of left) {
        const { status } = await store.loadSession(id)
        if (AT_REST.includes(id)) assert.equal(status, 'archived')
        else assert.ok(id.startsWith(status), `${id} is ${status}`)
      }
    })
  }

  it('are not archived twice, but an archived one can be deleted', async () => {
    const store = await open()
    await store.saveSession(over('s'))
    assert.deepEqual(idsOf(await store.expireSessions(2000)), ['s'])
    assert.deepEqual(await store.expireSessions(2000), [])
    assert.deepEqual(await store.expireSessions(2000, { action: 'archive' }), [])
    assert.deepEqual(await store.expireSessions(500, { action: 'delete' }), [])
    assert.deepEqual(await store.expireSessions(2000, { action: 'delete' }), [
      { sessionId: 's', status: 'archived', expiresAt: 1000, action: 'deleted' },
    ])
    assert.deepEqual(await store.listSessions(), [])
  })

  it('are those whose last moment is now, or was before', async () => {
    const store = await open()
    for (const expiresAt of [999, 1000, 1000.5, 1001]) await store.saveSession(over(`at-${expiresAt}`, { expiresAt }))
    assert.deepEqual(await store.expireSessions(998.9), [])
    assert.deepEqual(idsOf(await store.expireSessions(1000)), ['at-1000', 'at-999'])
    assert.deepEqual(idsOf(await store.expireSessions(1000.5)), ['at-1000.5'])
    assert.deepEqual(idsOf(await store.expireSessions(new Date(1001))), ['at-1001'])
  })

  it('are judged by a number, by a Date, or by the clock', async () => {
    const store = await open()
    const now = Date.now()
    await store.saveSession(over('past', { expiresAt: now - HOUR }))
    await store.saveSession(over('to come', { expiresAt: now + HOUR }))
    assert.deepEqual(await store.expireSessions(now - 2 * HOUR), [])
    assert.deepEqual(await store.expireSessions(new Date(now - 2 * HOUR)), [])
    assert.deepEqual(await store.expireSessions(-Infinity), [])
    assert.deepEqual(await store.expireSessions(0, {}), [])
    assert.deepEqual(idsOf(await store.expireSessions()), ['past'])
    assert.deepEqual(idsOf(await store.expireSessions(undefined, { action: 'delete' })), ['past'])
    assert.deepEqual(idsOf(await store.expireSessions(new Date(now + HOUR), { action: undefined })), ['to come'])
    assert.deepEqual(await store.listSessions(), ['to come'])
  })

  it('need a time: without one that is a number they never end', async () => {
    const store = await open()
    const times = [undefined, null, '1000', '', true, [1000], { valueOf: 1000 }, new Date(1000)]
    for (const [index, expiresAt] of times.entries()) await store.saveSession(over(`s-${index}`, { expiresAt }))
    assert.deepEqual(await store.expireSessions(Infinity, { action: 'delete' }), [])
    assert.equal((await store.listSessions()).length, times.length)
    for (const id of await store.listSessions()) assert.equal(await statusOf(store, id), 'paused')
  })

  it('may have no status: they get one', async () => {
    const store = await open()
    await store.saveSession({ id: 's', expiresAt: 5, taskTree: {}, checkpointIds: [] })
    assert.deepEqual(await store.expireSessions(10), [
      { sessionId: 's', status: null, expiresAt: 5, action: 'archived' },
    ])
    assert.deepEqual(await store.loadSession('s'), { id: 's', expiresAt: 5, checkpointIds: [], status: 'archived' })
  })

  it('are named in the order of their ids, with the time as it was stored', async () => {
    const store = await open()
    const times = { b: 1e21, a: -5, c: 0.25, ä: 0 }
    for (const [id, expiresAt] of Object.entries(times)) await store.saveSession(over(id, { expiresAt }))
    const ended = await store.expireSessions(1e22)
    assert.deepEqual(
      ended.map(({ sessionId, expiresAt }) => [sessionId, expiresAt]),
      [
        ['a', -5],
        ['b', 1e21],
        ['c', 0.25],
        ['ä', 0],
      ],
    )
  })

  it('stay as they were in the version before, where versions are kept', async () => {
    const store = await open({ keepPrevious: 1 })
    const session = over('s')
    await store.saveSession(session)
    await store.expireSessions(2000)
    assert.equal(await statusOf(store, 's'), 'archived')
    assert.deepEqual(await store.loadSession('s', { version: -1 }), withoutTree(session))
  })

  it('are archived once, however many ask at the same time', async () => {
    const store = await open()
    for (let number = 0; number < 10; number += 1) await store.saveSession(over(`s-${number}`))
    const answers = await Promise.all(Array.from({ length: 8 }, () => store.expireSessions(2000)))
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), await store.listSessions())
  })

  it('are none in an empty store, and sessions that were never saved are none', async () => {
    const store = await open()
    assert.deepEqual(await store.expireSessions(), [])
    await checkpointOf(store, over('checkpoints only'))
    assert.deepEqual(await store.expireSessions(Infinity, { action: 'delete' }), [])
    assert.equal((await store.listCheckpointInfo('checkpoints only')).total, 1)
  })

  it('are left alone by arguments that make no sense', async () => {
    const store = await open()
    await store.saveSession(over('s'))
    const time = /^now must be a number of milliseconds since 1970, or a Date; got /
    const action = /^options\.action must be "archive" or "delete"; got /
    const wrong = [
      ...[null, '2000', Number.NaN, true, {}, [], 10n, new Date('no date'), { action: 'delete' }].map((now) => [
        [now],
        time,
      ]),
      ...[null, [], 'delete', 5].map((options) => [[2000, options], /^options must be an object; got /]),
      ...['remove', '', null, 5, {}, ['delete']].map((value) => [[2000, { action: value }], action]),
    ]
    for (const [args, message] of wrong) {
      await assert.rejects(store.expireSessions(...args), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
    assert.equal(await statusOf(store, 's'), 'paused')
  })
})

describe('sessions past their time, in files', () => {
  it('are archived in the two-space layout, whoever wrote them before', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const session = over('ours', { name: 'é \u2028 "x"' })
    const { path } = await store.saveSession(session)
    const theirs = join(base, 'theirs', 'session.json')
    mkdirSync(join(base, 'theirs'))
    writeFileSync(theirs, JSON.stringify(withoutTree({ ...session, id: 'theirs' }), null, '\t'))
    assert.equal((await store.expireSessions(2000)).length, 2)
    const archived = throughJson({ ...session, taskTree: undefined, status: 'archived' })
    assert.equal(readFileSync(path, 'utf8'), JSON.stringify(archived, null, 2))
    assert.equal(readFileSync(theirs, 'utf8'), JSON.stringify({ ...archived, id: 'theirs' }, null, 2))
    if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o600)
  })

  it('keep numbers and strings in the spelling that somebody else gave them', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    mkdirSync(join(base, 's'))
    const path = join(base, 's', 'session.json')
    writeFileSync(path, '{"st\\u0061tus":"p\\u0061used","expiresAt":1.0e3,"n":1.50,"text":"\\u0041\\/"}')
    assert.deepEqual(await store.expireSessions(2000), [
      { sessionId: 's', status: 'paused', expiresAt: 1000, action: 'archived' },
    ])
    const { expiresAt, n, text, status } = JSON.parse(readFileSync(path, 'utf8'))
    assert.deepEqual([expiresAt, n, text, status], [1000, 1.5, 'A/', 'archived'])
    assert.match(readFileSync(path, 'utf8'), /"n": 1\.50,\n {2}"text": "\\u0041\\\/"/)
  })

  it('that are damaged are left as they are, and hold up no other', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const damage = {
      'a-cut-off': (path) => truncateSync(path, 200),
      'b-empty': (path) => truncateSync(path, 0),
      'c-no-object': (path) => writeFileSync(path, '["status", "paused"]'),
      'd-no-text': (path) => writeFileSync(path, Buffer.from('7b22657870697265734174223a31ff7d', 'hex')),
      'e-more': (path) => writeFileSync(path, `${readFileSync(path, 'utf8')}}`),
      'f-no-file': (path) => {
        rmSync(path)
        mkdirSync(path)
      },
    }
    for (const [id, spoil] of Object.entries(damage)) {
      const { path } = await store.saveSession(over(id))
      spoil(path)
    }
    const before = snapshot(base)
    await store.saveSession(over('z-whole'))
    for (const action of ['archive', 'delete']) {
      assert.deepEqual(idsOf(await store.expireSessions(2000, { action })), ['z-whole'])
    }
    assert.deepEqual(
      snapshot(base).filter(([, bytes]) => bytes !== ''),
      before.filter(([, bytes]) => bytes !== ''),
    )
  })

  it('are archived once by several stores at the same time', async () => {
    const base = scratchDirectory()
    const stores = await Promise.all([1, 2, 3].map(() => openStore(base, { durability: 'relaxed' })))
    for (let number = 0; number < 20; number += 1) await stores[0].saveSession(over(`s-${number}`))
    const answers = await Promise.all(stores.map((store) => store.expireSessions(2000)))
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), await stores[0].listSessions())
  })
})

onEveryBackend('what a new process goes on with', (open) => {
  it('is each session whose document says that somebody works on it', async () => {
    const store = await open()
    for (const status of [...RUNNING, ...AT_REST, 'archived']) {
      const session = makeSession(status, { status, name: `is ${status}` })
      await checkpointOf(store, session, { ...OPTIONS, label: 'l', description: 'd' })
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress: true, label: 'newest' })
      await store.pinCheckpoint(status, checkpointId)
      await store.saveSession(session)
    }
    const found = await store.recoverable()
    assert.deepEqual(idsOf(found), RUNNING.toSorted())
    for (const { sessionId, ...line } of found) {
      const [checkpoint] = (await store.listCheckpointInfo(sessionId)).checkpoints
      assert.deepEqual(line, { name: `is ${sessionId}`, status: sessionId, checkpoint, damaged: [] })
      assert.deepEqual([checkpoint.label, checkpoint.pinned], ['newest', true])
    }
  })

  it('is each that was never saved, if its newest checkpoint says so', async () => {
    const store = await open()
    for (const status of [...RUNNING, ...AT_REST, 'archived']) {
      await checkpointOf(store, makeSession(`was-${status}`, { status: 'paused', name: 'older' }))
      await checkpointOf(store, makeSession(`was-${status}`, { status, name: 'newest' }))
      await checkpointOf(store, makeSession(`then-${status}`, { status }))
      await checkpointOf(store, makeSession(`then-${status}`, { status: 'completed' }))
    }
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, name }) => [sessionId, status, name]),
      RUNNING.toSorted().map((status) => [`was-${status}`, status, 'newest']),
    )
    for (const { sessionId, checkpoint } of found) {
      assert.equal(checkpoint.id, (await store.getLatestCheckpoint(sessionId)).id)
    }
  })

  it('is judged by the document, where document and checkpoint differ', async () => {
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

  it('may have no checkpoint yet', async () => {
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

  it('has no name where the session has none', async () => {
    const store = await open()
    await store.saveSession({ id: 'document', status: 'active', name: 5, taskTree: {}, checkpointIds: [] })
    await checkpointOf(store, { id: 'checkpoint', status: 'active', taskTree: {}, checkpointIds: [] })
    await store.saveSession(makeSession('odd', { name: 'two\nlines "quoted" 🟦 \\' }))
    const [checkpoint, document, odd] = await store.recoverable()
    assert.equal('name' in document, false)
    assert.equal('name' in checkpoint, false)
    assert.equal(odd.name, 'two\nlines "quoted" 🟦 \\')
  })

  it('is nothing in an empty store, and after all is done', async () => {
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

describe('what a new process goes on with, from files', () => {
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

  /** Rewrites a stored checkpoint, plain or gzipped. */
  function rewrite(path, change) {
    const bytes = readFileSync(path)
    const isGzip = path.endsWith('.gz')
    const text = change((isGzip ? gunzipSync(bytes) : bytes).toString())
    writeFileSync(path, isGzip ? gzipSync(text) : text)
  }

  /** The same checkpoint, as a person might write it: other white space, other escapes. */
  const respelt = (text) => JSON.stringify(JSON.parse(text), null, 7).replace('A session', '\\u0041 session')

  for (const compress of [false, true]) {
    for (const [kind, [change, code]] of Object.entries(DAMAGE)) {
      it(`is the checkpoint before one that is ${kind}${compress ? ', compressed' : ''}`, async () => {
        const store = await openStore()
        const good = await checkpointOf(store, makeSession('s'))
        const bad = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress })
        rewrite(bad.path, change)
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

  it('has no checkpoint if none is whole; without a document, nobody knows that it ran', async () => {
    const store = await openStore()
    for (const change of [DAMAGE.empty[0], DAMAGE['changed in one value'][0]]) {
      rewrite((await checkpointOf(store, makeSession('saved'))).path, change)
    }
    await store.saveSession(makeSession('saved'))
    for (const change of [DAMAGE.empty[0], DAMAGE['cut off'][0]]) {
      rewrite((await checkpointOf(store, makeSession('never saved'))).path, change)
    }
    const found = await store.recoverable()
    assert.deepEqual(
      found.map(({ sessionId, status, checkpoint, damaged }) => [sessionId, status, checkpoint, damaged.length]),
      [['saved', 'active', null, 2]],
    )
    const refused = await store.recoverSession('saved')
    assert.deepEqual([refused.success, refused.passedOver.length], [false, 2])
  })

  it('is a checkpoint that a person has written anew, as long as it means the same', async () => {
    const store = await openStore()
    await checkpointOf(store, makeSession('s'))
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
    rewrite(path, respelt)
    await store.saveSession(makeSession('s'))
    const [found] = await store.recoverable()
    assert.equal(found.checkpoint.id, checkpointId)
    assert.deepEqual(found.damaged, [])
    assert.equal(found.checkpoint.taskCount, 3)
  })

  it('is judged by its newest whole checkpoint if the document is damaged', async () => {
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

  it('is found without changing anything', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s'))
    rewrite((await checkpointOf(store, makeSession('s'))).path, respelt)
    rewrite((await checkpointOf(store, makeSession('s'))).path, DAMAGE.empty[0])
    await store.saveSession(makeSession('s'))
    const before = snapshot(base)
    await store.recoverable()
    assert.deepEqual(snapshot(base), before)
  })

  it('is what a killed process left, up to the last checkpoint that it was told of', async () => {
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
        // In the middle of it.
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
    // The one that was under way may have come through.
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
