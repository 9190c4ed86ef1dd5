import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { rewriteCheckpoint } from '../support/original-format.mjs'
import { makeAgent, makeSession, makeTask, makeTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore } from '../support/stores.mjs'

const NOTHING = { added: [], removed: [], changed: [] }

/** A checkpoint of session `s`, and the name that diffCheckpoints takes. */
async function made(store, { id = 's', agents, context, compress = false, ...overrides } = {}) {
  const session = makeSession(id, overrides)
  const { checkpointId, path } = await checkpointOf(store, session, { ...OPTIONS, compress }, agents, context)
  return { name: { sessionId: id, checkpointId }, path }
}

/** The difference between two states of a session. */
async function diffOf(store, before, after) {
  const [a, b] = [await made(store, before), await made(store, after)]
  return store.diffCheckpoints(a.name, b.name)
}

onEveryBackend('diffCheckpoints', (open) => {
  it('reports two checkpoints of one state as identical and names both', async () => {
    const store = await open()
    const state = { agents: { x: makeAgent('x') }, context: { k: [1] } }
    const [a, b] = [await made(store, state), await made(store, state)]
    const [newer, older] = (await store.listCheckpoints('s')).checkpoints
    const expected = {
      a: { ...a.name, timestamp: older.timestamp },
      b: { ...b.name, timestamp: newer.timestamp },
      identical: true,
      tasks: NOTHING,
      agents: NOTHING,
      context: NOTHING,
      session: [],
    }
    assert.deepEqual(await store.diffCheckpoints(a.name, b.name), expected)
    const names = [a, b].map(({ name }) => `${name.sessionId}/${name.checkpointId}`)
    assert.deepEqual(await store.diffCheckpoints(...names), expected)
    assert.equal((await store.diffCheckpoints(a.name, a.name)).identical, true)
  })

  it('names added, removed and changed tasks with their members and status', async () => {
    const before = makeTree(5)
    const { 'task-1': _, ...after } = structuredClone(before)
    after['task-4'].status = 'completed'
    after['task-4'].result = { success: true, output: 'done' }
    delete after['task-2'].priority
    after['task-2'].tags.push('slow')
    after['task-9'] = makeTask('task-9')
    after['task-8'] = makeTask('task-8')
    const diff = await diffOf(await open(), { taskTree: before }, { taskTree: after })
    assert.equal(diff.identical, false)
    assert.deepEqual(diff.tasks, {
      added: ['task-9', 'task-8'],
      removed: ['task-1'],
      changed: [
        { id: 'task-2', members: ['tags', 'priority'] },
        { id: 'task-4', members: ['status', 'result'], status: { from: 'pending', to: 'completed' } },
      ],
    })
    assert.deepEqual([diff.agents, diff.context, diff.session], [NOTHING, NOTHING, []])
  })

  it('shows null for a task without a status', async () => {
    const diff = await diffOf(
      await open(),
      { taskTree: { a: {}, b: { status: 'failed' }, c: 1, d: { status: 'failed' } } },
      { taskTree: { a: { status: 'failed' }, b: {}, c: 2, d: null } },
    )
    assert.deepEqual(diff.tasks.changed, [
      { id: 'a', members: ['status'], status: { from: null, to: 'failed' } },
      { id: 'b', members: ['status'], status: { from: 'failed', to: null } },
      { id: 'c', members: [] },
      { id: 'd', members: [], status: { from: 'failed', to: null } },
    ])
  })

  it('names agents, context keys and session members', async () => {
    const diff = await diffOf(
      await open(),
      {
        agents: { x: makeAgent('x'), y: makeAgent('y') },
        context: { plan: ['lexer'], old: 1, same: { a: 1, b: [2] } },
        pausedAt: 5,
      },
      {
        agents: { x: { ...makeAgent('x'), state: 'idle', currentTaskId: 'task-1' }, z: makeAgent('z') },
        context: { plan: ['parser'], same: { b: [2], a: 1 }, ['検査']: 'é' },
        status: 'completed',
        checkpointIds: ['cp-0'],
        extra: { mine: true },
      },
    )
    assert.deepEqual(diff.agents, {
      added: ['z'],
      removed: ['y'],
      changed: [{ id: 'x', members: ['state', 'currentTaskId'] }],
    })
    assert.deepEqual(diff.context, { added: ['検査'], removed: ['old'], changed: ['plan'] })
    assert.deepEqual(diff.session, ['status', 'extra', 'pausedAt'])
    assert.deepEqual(diff.tasks, NOTHING)
  })

  it('ignores the order of keys at any depth', async () => {
    const task = makeTask('t', { metadata: { a: { b: 1, c: [{ d: 2, e: 3 }] }, f: null } })
    const reversed = (value) =>
      value && typeof value === 'object' && !Array.isArray(value)
        ? Object.fromEntries(
            Object.entries(value)
              .toReversed()
              .map(([key, inner]) => [key, reversed(inner)]),
          )
        : Array.isArray(value)
          ? value.map(reversed)
          : value
    const before = { taskTree: { t: task, u: task }, agents: { x: makeAgent('x') }, context: { m: task, n: 1 } }
    const { identical } = await diffOf(await open(), before, reversed(before))
    assert.equal(identical, true)
  })

  it('compares plain with compressed checkpoints and across sessions', async () => {
    const store = await open()
    const plain = await made(store, { context: { k: 'é'.repeat(100) } })
    const compressed = await made(store, { context: { k: 'é'.repeat(100) }, compress: true })
    assert.equal((await store.diffCheckpoints(plain.name, compressed.name)).identical, true)
    assert.equal((await store.diffCheckpoints(compressed.name, compressed.name)).identical, true)
    const other = await made(store, { id: 'other', taskTree: makeTree(2), compress: true })
    const diff = await store.diffCheckpoints(plain.name, other.name)
    assert.deepEqual([diff.a.sessionId, diff.b.sessionId], ['s', 'other'])
    assert.deepEqual([diff.session, diff.context.removed, diff.tasks.removed], [['id'], ['k'], ['task-2']])
  })

  it('keeps names unchanged, whatever characters they have', async () => {
    const names = ['__proto__', 'constructor', '', 'a"b\\c', 'line\nbreak', '\ud800', '1', '🟦']
    const tree = Object.fromEntries(names.map((name) => [name, {}]))
    const diff = await diffOf(await open(), { taskTree: {} }, { taskTree: tree })
    assert.deepEqual(diff.tasks.added, Object.keys(tree))
    const lone = await diffOf(await open(), { context: { t: '\ud800' } }, { context: { t: '\ud801' } })
    assert.deepEqual(lone.context.changed, ['t'])
  })

  it('finds one changed task in 10,000, and 10,000 changed ones', async () => {
    const store = await open()
    const before = makeTree(10_000)
    const one = { ...before, 'task-5000': makeTask('task-5000', { status: 'failed' }) }
    const all = makeTree(10_000, { prompt: '検査' })
    const checkpoints = []
    for (const taskTree of [before, one, all]) checkpoints.push(await made(store, { taskTree }))
    const [first, second, third] = checkpoints.map(({ name }) => name)
    const single = await store.diffCheckpoints(first, second)
    assert.deepEqual(single.tasks, {
      ...NOTHING,
      changed: [{ id: 'task-5000', members: ['status'], status: { from: 'pending', to: 'failed' } }],
    })
    const { tasks } = await store.diffCheckpoints(first, third)
    const expected = Object.keys(before).map((id) => ({ id, members: ['prompt'] }))
    assert.deepEqual(tasks, { ...NOTHING, changed: expected })
  })

  it('rejects and names a checkpoint that does not exist', async () => {
    const store = await open()
    const { name } = await made(store)
    for (const missing of [
      { sessionId: 's', checkpointId: 'cp-none' },
      { sessionId: 'unknown', checkpointId: name.checkpointId },
    ]) {
      const expected = {
        code: 'WAYMARK_NOT_FOUND',
        message: `Checkpoint not found: ${missing.checkpointId} in session ${missing.sessionId}`,
      }
      await assert.rejects(store.diffCheckpoints(name, missing), expected)
      await assert.rejects(store.diffCheckpoints(missing, name), expected)
    }
  })

  it('rejects arguments that do not name a checkpoint', async () => {
    const store = await open()
    const { name } = await made(store)
    const wrong = [
      [undefined, 'WAYMARK_INVALID_ARGUMENT', / must be an object; got undefined$/],
      [null, 'WAYMARK_INVALID_ARGUMENT', / must be an object; got null$/],
      [[], 'WAYMARK_INVALID_ARGUMENT', / must be an object; got an array$/],
      [{}, 'WAYMARK_INVALID_ARGUMENT', /\.sessionId must be a string; got undefined$/],
      [{ sessionId: 's' }, 'WAYMARK_INVALID_ARGUMENT', /\.checkpointId must be a string; got undefined$/],
      [{ sessionId: 's', checkpointId: 7 }, 'WAYMARK_INVALID_ARGUMENT', /\.checkpointId must be a string; got 7$/],
      [{ sessionId: 's', checkpointId: 't/cp-1' }, 'WAYMARK_INVALID_ARGUMENT', /names the session "t"/],
      [
        'cp-1',
        'WAYMARK_INVALID_ARGUMENT',
        / must be \{ sessionId, checkpointId \} or "session\/checkpoint"; got "cp-1"$/,
      ],
      ['s/../cp-1', 'WAYMARK_INVALID_ID', /^Invalid checkpoint id/],
      ['/cp-1', 'WAYMARK_INVALID_ID', /^Invalid session id/],
      [{ sessionId: '..', checkpointId: 'cp-1' }, 'WAYMARK_INVALID_ID', /^Invalid session id/],
      [{ sessionId: 's', checkpointId: '' }, 'WAYMARK_INVALID_ID', /^Invalid checkpoint id/],
    ]
    for (const [value, code, message] of wrong) {
      for (const [args, location] of [
        [[value, name], 'a'],
        [[name, value], 'b'],
      ]) {
        let call
        assert.doesNotThrow(() => (call = store.diffCheckpoints(...args)))
        await assert.rejects(call, (error) => {
          assert.equal(error.code, code)
          assert.match(error.message, message)
          if (/ must be /.test(error.message)) assert.ok(error.message.startsWith(location), error.message)
          return true
        })
      }
    }
  })
})

describe('diffCheckpoints (files)', () => {
  for (const compress of [false, true]) {
    const kind = compress ? 'gzip' : 'plain'

    it(`ignores layout and spelling, ${kind}`, async () => {
      const store = await openStore()
      const [a, b] = [await made(store, { name: 'Zürich' }), await made(store, { name: 'Zürich', compress })]
      rewriteCheckpoint(b.path, (text) => JSON.stringify(JSON.parse(text), null, '\t'))
      assert.equal((await store.diffCheckpoints(a.name, b.name)).identical, true)
      rewriteCheckpoint(b.path, (text) => text.replace('ü', '\\u00fc').replace('task-1', '\\u0074ask-1'))
      assert.equal((await store.diffCheckpoints(a.name, b.name)).identical, true)
      assert.equal((await store.diffCheckpoints(b.name, a.name)).identical, true)
      assert.equal((await store.diffCheckpoints(b.name, b.name)).identical, true)
    })

    it(`rejects a damaged checkpoint as getCheckpoint does, ${kind}`, async () => {
      const damages = [
        [(text) => text.slice(0, text.length / 2), 'WAYMARK_CORRUPT'],
        [() => '[1, 2]', 'WAYMARK_CORRUPT'],
        [(text) => text.replace('task-1', 'task-7'), 'WAYMARK_CHECKSUM_MISMATCH'],
        [(text) => text.replace('A session', 'B session'), 'WAYMARK_CHECKSUM_MISMATCH'],
        [(text) => text.replace('1.0.0', '2.0.0'), 'WAYMARK_NEWER_VERSION'],
      ]
      const store = await openStore()
      const good = await made(store)
      for (const [damage, code] of damages) {
        const bad = await made(store, { compress })
        rewriteCheckpoint(bad.path, damage)
        const error = await store.getCheckpoint('s', bad.name.checkpointId).catch((thrown) => thrown)
        assert.equal(error.code, code)
        const expected = { code, message: error.message }
        await assert.rejects(store.diffCheckpoints(good.name, bad.name), expected)
        await assert.rejects(store.diffCheckpoints(bad.name, good.name), expected)
      }
    })
  }
})
