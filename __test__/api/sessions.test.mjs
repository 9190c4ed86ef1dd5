import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { emptyStore } from '../support/invalid-values.mjs'
import { makeSession, makeTree, throughJson, withoutTree } from '../support/sessions.mjs'
import { checkpointOf, onEveryBackend } from '../support/stores.mjs'

onEveryBackend('saveSession and loadSession', (open) => {
  it('a session returns without its task tree', async () => {
    const store = await open()
    const session = makeSession('s')
    const result = await store.saveSession(session)
    assert.equal(result.success, true)
    assert.match(result.path, /s[/\\]session\.json$/)
    assert.equal(result.sizeBytes, JSON.stringify(withoutTree(session), null, 2).length)
    assert.deepEqual(Object.keys(result), ['success', 'path', 'sizeBytes', 'revision'])
    assert.deepEqual(await store.loadSession('s'), withoutTree(session))
    assert.ok(session.taskTree, 'the caller keeps its tree')
  })

  it('saving again replaces the session', async () => {
    const store = await open()
    await store.saveSession(makeSession('s', { name: 'first' }))
    await store.saveSession(makeSession('s', { name: 'second' }))
    assert.equal((await store.loadSession('s')).name, 'second')
  })

  it('accept a class instance with getters', async () => {
    class Session {
      #plain = makeSession('s')
      constructor() {
        this.id = 's'
        this.taskTree = makeTree()
        this.checkpointIds = []
      }
      get status() {
        return this.#plain.status
      }
      get name() {
        return 'from a getter'
      }
    }
    const store = await open()
    const session = new Session()
    await store.saveSession(session)
    assert.equal((await store.loadSession('s')).status, 'active')
    await checkpointOf(store, session)
    const { session: stored } = await store.getLatestCheckpoint('s')
    assert.equal(stored.name, 'from a getter')
    assert.deepEqual(Object.keys(stored), ['id', 'name', 'status', 'lastCheckpointId', 'checkpointIds'])
  })

  it('loadTaskTree returns a plain object, also for a Map', async () => {
    const store = await open()
    const tree = makeTree(4)
    const result = await store.saveTaskTree('s', new Map(Object.entries(tree)))
    assert.match(result.path, /s[/\\]task-tree\.json$/)
    assert.deepEqual(await store.loadTaskTree('s'), tree)
    await store.saveTaskTree('s', {})
    assert.deepEqual(await store.loadTaskTree('s'), {})
  })

  it('return null for what was never saved', async () => {
    const store = await open()
    assert.equal(await store.loadSession('unknown'), null)
    assert.equal(await store.loadTaskTree('unknown'), null)
    assert.equal(await store.loadTaskResult('unknown', 'nothing'), null)
  })

  it('listSessions lists saved sessions only, in the order of their ids', async () => {
    const store = await open()
    assert.deepEqual(await store.listSessions(), [])
    await store.createSessionDirectory('empty')
    await store.saveTaskTree('tree-only', makeTree())
    for (const id of ['c', 'a', 'b']) await store.saveSession(makeSession(id))
    assert.deepEqual(await store.listSessions(), ['a', 'b', 'c'])
  })

  it('deleteSession deletes one session completely and no other', async () => {
    const store = await open()
    for (const id of ['gone', 'stays']) {
      await store.saveSession(makeSession(id))
      await store.saveTaskTree(id, makeTree())
      await store.saveTaskResult(id, 't', 1)
      await checkpointOf(store, makeSession(id))
    }
    assert.deepEqual(await store.deleteSession('gone'), { success: true })
    assert.deepEqual(await store.deleteSession('gone'), { success: true })
    assert.deepEqual(await store.listSessions(), ['stays'])
    assert.equal(await store.loadTaskTree('gone'), null)
    assert.equal(await store.loadTaskResult('gone', 't'), null)
    assert.equal((await store.listCheckpoints('gone')).total, 0)
    assert.equal((await store.listCheckpoints('stays')).total, 1)
    assert.equal(await store.loadTaskResult('stays', 't'), 1)
  })

  it('saveTaskResult accepts whatever JSON can hold', async () => {
    const store = await open()
    for (const value of [null, 0, '', 'text', false, [], {}, [1, { a: [] }], { success: true, output: 'ü \u2028' }]) {
      const result = await store.saveTaskResult('s', 'task.1', value)
      assert.equal(result.success, true)
      assert.deepEqual(await store.loadTaskResult('s', 'task.1'), throughJson(value))
    }
  })

  it('getSessionStorageStats counts checkpoints, results and bytes', async () => {
    const store = await open()
    assert.deepEqual(await store.getSessionStorageStats('s'), { totalSizeBytes: 0, checkpointCount: 0, resultCount: 0 })
    const sizes = [
      await store.saveSession(makeSession('s')),
      await store.saveTaskTree('s', makeTree()),
      await store.saveTaskResult('s', 'one', 1),
      await store.saveTaskResult('s', 'two', 2),
      await checkpointOf(store, makeSession('s')),
      await checkpointOf(store, makeSession('s'), { trigger: 'auto', compress: true, includeContext: false }),
    ].map((result) => result.sizeBytes)
    const totalSizeBytes = sizes.reduce((sum, size) => sum + size)
    assert.deepEqual(await store.getSessionStorageStats('s'), { totalSizeBytes, checkpointCount: 2, resultCount: 2 })
  })
})

describe('saveTaskResult arguments', () => {
  it('undefined, functions and symbols are rejected as task results', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const [value, shown] of [
      [undefined, 'undefined'],
      [() => {}, 'a function'],
      [Symbol('x'), 'a symbol'],
      [{ toJSON: () => undefined }, 'an object'],
    ]) {
      const result = await store.saveTaskResult('s', 't', value)
      assert.equal(result.code, 'WAYMARK_NOT_SERIALIZABLE')
      assert.equal(result.error, `result cannot be stored as JSON: JSON has no way to write ${shown}`)
    }
    isUntouched()
  })
})
