import assert from 'node:assert/strict'
import { existsSync, linkSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession, makeTask } from '../support/sessions.mjs'
import {
  CheckpointStore,
  OPTIONS,
  backends,
  checkpointOf,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'
import { pollDuring } from '../support/waiting.mjs'

/** Saves session `s` once with each of these names. */
async function saved(store, ...names) {
  for (const name of names) {
    const result = await store.saveSession(makeSession('s', { name }))
    assert.equal(result.success, true, result.error)
  }
}

/** Saves the task tree of `s` once with each of these tasks. */
async function planted(store, ...tasks) {
  for (const task of tasks) {
    const result = await store.saveTaskTree('s', { [task]: makeTask(task) })
    assert.equal(result.success, true, result.error)
  }
}

/** The names of session `s` from the current version back to version -4. */
async function sessionNames(store) {
  const names = []
  for (const version of [0, -1, -2, -3, -4]) names.push((await store.loadSession('s', { version }))?.name ?? null)
  assert.equal((await store.loadSession('s'))?.name ?? null, names[0])
  return names
}

/** The single task of each version of the tree. */
async function treeTasks(store) {
  const tasks = []
  for (const version of [0, -1, -2, -3, -4]) {
    const tree = await store.loadTaskTree('s', { version })
    tasks.push(tree && Object.keys(tree).join())
  }
  assert.deepEqual(await store.loadTaskTree('s'), await store.loadTaskTree('s', { version: 0 }))
  return tasks
}

onEveryBackend('keepPrevious', (open) => {
  it('keeps that many earlier versions', async () => {
    const store = await open({ keepPrevious: 2 })
    assert.deepEqual(await sessionNames(store), [null, null, null, null, null])
    await saved(store, 'one')
    await planted(store, 'a', 'b')
    assert.deepEqual(await sessionNames(store), ['one', null, null, null, null])
    assert.deepEqual(await treeTasks(store), ['b', 'a', null, null, null])
    await saved(store, 'two', 'three')
    assert.deepEqual(await sessionNames(store), ['three', 'two', 'one', null, null])
    assert.deepEqual(await treeTasks(store), ['b', 'a', null, null, null])
    await saved(store, 'four', 'five')
    await planted(store, 'c', 'd', 'e')
    assert.deepEqual(await sessionNames(store), ['five', 'four', 'three', null, null])
    assert.deepEqual(await treeTasks(store), ['e', 'd', 'c', null, null])
  })

  it('returns each version as it was saved', async () => {
    const store = await open({ keepPrevious: 1 })
    const { taskTree: _, ...expected } = makeSession('s', { metadata: { odd: '"\\\n→' } })
    await store.saveSession({ ...expected, taskTree: {} })
    await saved(store, 'later')
    assert.deepEqual(await store.loadSession('s', { version: -1 }), expected)
    const tree = { a: makeTask('a', { result: { success: true, output: 'x' } }) }
    await store.saveTaskTree('s', new Map(Object.entries(tree)))
    await store.saveTaskTree('s', {})
    assert.deepEqual(await store.loadTaskTree('s', { version: -1 }), tree)
  })

  it('keeps a version when a restore replaces session and tree', async () => {
    const store = await open({ keepPrevious: 2 })
    const taskTree = { restored: makeTask('restored', { status: 'failed' }) }
    const { checkpointId } = await checkpointOf(store, makeSession('s', { name: 'restored', taskTree }))
    await saved(store, 'one', 'two')
    await planted(store, 'a', 'b')
    await store.restoreCheckpoint('s', checkpointId, { resetFailedTasks: true })
    assert.deepEqual(await sessionNames(store), ['restored', 'two', 'one', null, null])
    assert.deepEqual(await treeTasks(store), ['restored', 'b', 'a', null, null])
    await store.recoverSession('s')
    assert.deepEqual(await sessionNames(store), ['restored', 'restored', 'two', null, null])
    assert.equal((await store.loadTaskTree('s', { version: -1 })).restored.status, 'pending')
    assert.equal((await store.loadTaskTree('s')).restored.status, 'failed')
  })

  it('keeps a version when a session is archived', async () => {
    const store = await open({ keepPrevious: 1 })
    await store.saveSession(makeSession('s', { status: 'completed', expiresAt: 1 }))
    await store.expireSessions(2)
    const statuses = [await store.loadSession('s'), await store.loadSession('s', { version: -1 })]
    assert.deepEqual(
      statuses.map(({ status }) => status),
      ['archived', 'completed'],
    )
  })

  it('keeps no version for a failed save', async () => {
    const store = await open({ keepPrevious: 2 })
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    await saved(store, 'one', 'two')
    await planted(store, 'a')
    assert.equal((await store.saveSession(makeSession('s', { metadata: { n: 1n } }))).code, 'WAYMARK_NOT_SERIALIZABLE')
    assert.equal((await store.saveTaskTree('s', { n: 1n })).code, 'WAYMARK_NOT_SERIALIZABLE')
    assert.equal((await store.restoreCheckpoint('s', 'cp-none')).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.restoreCheckpoint('s', checkpointId, { resetFailedTasks: 1 })).success, false)
    assert.deepEqual(await sessionNames(store), ['two', 'one', null, null, null])
    assert.deepEqual(await treeTasks(store), ['a', null, null, null, null])
  })

  it('is 0 by default', async () => {
    for (const options of [undefined, 100, {}, { keepPrevious: 0 }, { keepPrevious: undefined }]) {
      const store = await open(options)
      await saved(store, 'one', 'two', 'three')
      await planted(store, 'a', 'b')
      assert.deepEqual(await sessionNames(store), ['three', null, null, null, null])
      assert.deepEqual(await treeTasks(store), ['b', null, null, null, null])
    }
  })

  it('may be 1000, one version for each save', async () => {
    const store = await open({ keepPrevious: 1000, durability: 'relaxed' })
    for (let count = 0; count < 30; count += 1) await saved(store, `${count}`)
    assert.equal((await store.loadSession('s', { version: -29 })).name, '0')
    assert.equal(await store.loadSession('s', { version: -30 }), null)
    assert.equal(await store.loadSession('s', { version: -1000 }), null)
  })

  it('keeps versions per session and deletes them with it', async () => {
    const store = await open({ keepPrevious: 2 })
    await saved(store, 'one', 'two')
    await store.saveSession(makeSession('other'))
    assert.equal(await store.loadSession('other', { version: -1 }), null)
    assert.deepEqual(await store.listSessions(), ['other', 's'])
    await store.deleteSession('s')
    assert.deepEqual(await sessionNames(store), [null, null, null, null, null])
    await saved(store, 'anew')
    assert.deepEqual(await sessionNames(store), ['anew', null, null, null, null])
  })

  it('version must be a whole number of at most 0', async () => {
    const store = await open({ keepPrevious: 1 })
    await saved(store, 'one', 'two')
    for (const version of [1, 0.5, -1.5, '-1', '−1', '0', '', NaN, Infinity, -Infinity, true, {}, () => {}]) {
      for (const method of ['loadSession', 'loadTaskTree']) {
        await assert.rejects(store[method]('s', { version }), ({ code, message }) => {
          assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', message)
          assert.match(message, /^options\.version must be 0 for the current version, -1 for the one before, /)
          return true
        })
      }
    }
    for (const options of [null, -1, 'x', []]) {
      await assert.rejects(store.loadSession('s', options), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options must be an object/,
      })
    }
    for (const version of [undefined, 0, -0]) assert.equal((await store.loadSession('s', { version })).name, 'two')
    assert.equal((await store.loadSession('s', undefined)).name, 'two')
  })
})

describe('the keepPrevious option', () => {
  it('must be a whole number from 0 to 1000', () => {
    for (const keepPrevious of [-1, 1.5, 1001, 'x', '1', NaN, Infinity, true, {}, [1], 1n]) {
      assert.throws(() => new CheckpointStore('memory:', { keepPrevious }), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options\.keepPrevious must be a whole number/,
      })
    }
    for (const keepPrevious of [0, 1, 1000]) assert.ok(new CheckpointStore('memory:', { keepPrevious }))
  })
})

describe('earlier versions (files)', () => {
  it('are numbered files beside the current one with its old content', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 2 })
    const contents = []
    for (const name of ['one', 'two', 'three', 'four']) {
      await saved(store, name)
      await planted(store, name)
      contents.unshift(['session', 'task-tree'].map((stem) => readFileSync(join(base, 's', `${stem}.json`), 'utf8')))
    }
    assert.deepEqual(readdirSync(join(base, 's')).toSorted(), [
      '.lock',
      'session.1.json',
      'session.2.json',
      'session.json',
      'task-tree.1.json',
      'task-tree.2.json',
      'task-tree.json',
    ])
    for (const [index, number] of ['', '.1', '.2'].entries()) {
      for (const [at, stem] of ['session', 'task-tree'].entries()) {
        assert.equal(readFileSync(join(base, 's', `${stem}${number}.json`), 'utf8'), contents[index][at])
      }
    }
  })

  it('outlive the process and are readable by a store that keeps none', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 3 })
    await saved(store, 'one', 'two', 'three')
    await store.close()
    assert.deepEqual(await sessionNames(await openStore(base)), ['three', 'two', 'one', null, null])
    const { code } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)}, { keepPrevious: 3 })
      await store.initialize()
      await store.saveSession(${JSON.stringify(makeSession('s', { name: 'of another process' }))})
    `)
    assert.equal(code, 0)
    await store.initialize()
    await saved(store, 'five')
    assert.deepEqual(await sessionNames(store), ['five', 'of another process', 'three', 'two', null])
  })

  it('follow a changed keepPrevious, newest first', async () => {
    const base = scratchDirectory()
    await saved(await openStore(base, { keepPrevious: 1 }), 'one', 'two')
    const more = await openStore(base, { keepPrevious: 3 })
    await saved(more, 'three', 'four')
    assert.deepEqual(await sessionNames(more), ['four', 'three', 'two', 'one', null])
    const fewer = await openStore(base, { keepPrevious: 1 })
    await saved(fewer, 'five')
    assert.deepEqual((await sessionNames(fewer)).slice(0, 2), ['five', 'four'])
  })

  it('are checked when they are read; the current version stays readable', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 2 })
    await saved(store, 'one', 'two', 'three')
    const path = join(base, 's', 'session.1.json')
    writeFileSync(path, '{"name": ')
    await assert.rejects(store.loadSession('s', { version: -1 }), ({ code, message }) => {
      assert.equal(code, 'WAYMARK_CORRUPT')
      assert.ok(message.includes(path), message)
      return true
    })
    assert.equal((await store.loadSession('s')).name, 'three')
    assert.equal((await store.loadSession('s', { version: -2 })).name, 'one')
    await saved(store, 'four')
    assert.equal((await store.loadSession('s', { version: -1 })).name, 'three')
  })

  it('never replace the current version for a concurrent reader', async () => {
    const base = scratchDirectory()
    const options = { keepPrevious: 2, durability: 'relaxed' }
    const writer = await openStore(base, options)
    const reader = await openStore(base, options)
    const { checkpointId } = await checkpointOf(writer, makeSession('s', { name: 'restored' }))
    await saved(writer, 'first')
    await planted(writer, 'first')
    const write = async () => {
      for (let count = 0; count < 100; count += 1) {
        await Promise.all([saved(writer, `${count}`), planted(writer, `${count}`)])
        if (count % 5 === 0) await writer.restoreCheckpoint('s', checkpointId)
      }
    }
    const reads = await pollDuring(write(), async () => {
      assert.ok(existsSync(join(base, 's', 'session.json')))
      assert.ok(existsSync(join(base, 's', 'task-tree.json')))
      assert.notEqual(await reader.loadSession('s'), null)
      assert.notEqual(await reader.loadTaskTree('s'), null)
    })
    assert.ok(reads > 0)
  })

  it('stay complete under concurrent saves', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, { keepPrevious: 3 }), await openStore(base, { keepPrevious: 3 })]
    const names = Array.from({ length: 30 }, (_, index) => `${index}`)
    await Promise.all(names.map((name, index) => saved(stores[index % 2], name)))
    const kept = (await sessionNames(stores[0])).slice(0, 4)
    assert.equal(new Set(kept).size, 4)
    for (const name of kept) assert.ok(names.includes(name), name)
    assert.deepEqual(readdirSync(join(base, 's')).toSorted(), [
      '.lock',
      'session.1.json',
      'session.2.json',
      'session.3.json',
      'session.json',
    ])
  })

  it('are created for both documents of a restore or for neither', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 2 })
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'), OPTIONS)
    await saved(store, 'one', 'two')
    await planted(store, 'a', 'b')
    writeFileSync(path, readFileSync(path, 'utf8').replace('task-1', 'task-7'))
    const refused = await store.restoreCheckpoint('s', checkpointId, { validateChecksum: true })
    assert.equal(refused.code, 'WAYMARK_CHECKSUM_MISMATCH')
    assert.deepEqual(await sessionNames(store), ['two', 'one', null, null, null])
    assert.deepEqual(await treeTasks(store), ['b', 'a', null, null, null])
    assert.equal(readdirSync(join(base, 's')).filter((name) => name.endsWith('.tmp')).length, 0)
  })
})

describe('earlier versions after keepPrevious was lowered', () => {
  it('are the most recent ones or none', async () => {
    const base = scratchDirectory()
    const save = async (keepPrevious, ...names) => {
      const store = await openStore(base, { keepPrevious })
      for (const name of names) await store.saveSession(makeSession('s', { name }))
      const found = []
      for (const version of [0, -1, -2, -3]) found.push((await store.loadSession('s', { version }))?.name ?? null)
      return found
    }
    assert.deepEqual(await save(2, 'one', 'two', 'three'), ['three', 'two', 'one', null])
    assert.deepEqual(await save(1, 'four'), ['four', 'three', null, null])
    assert.deepEqual(await save(0, 'five'), ['five', null, null, null])
    assert.deepEqual(await save(2, 'six'), ['six', 'five', null, null])
  })

  it('are all readable at every moment', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 2, durability: 'relaxed' })
    for (let count = 0; count < 3; count += 1) await store.saveSession(makeSession('s'))
    const write = async () => {
      for (let count = 0; count < 200; count += 1) await store.saveSession(makeSession('s', { name: `${count}` }))
    }
    const missing = [0, 0, 0]
    await pollDuring(write(), async () => {
      for (const back of [0, 1, 2]) if (!(await store.loadSession('s', { version: -back }))) missing[back] += 1
    })
    assert.deepEqual(missing, [0, 0, 0])
  })

  it('leave no temporary file if the previous version is a hard link to the current one', async () => {
    // The state after a process died between linking the previous version and writing the new one.
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 1 })
    await store.saveSession(makeSession('s', { name: 'one' }))
    linkSync(join(base, 's', 'session.json'), join(base, 's', 'session.1.json'))
    await store.saveSession(makeSession('s', { name: 'two' }))
    assert.deepEqual(readdirSync(join(base, 's')).toSorted(), ['.lock', 'session.1.json', 'session.json'])
    assert.equal((await store.loadSession('s', { version: -1 })).name, 'one')
  })
})

describe('the version option', () => {
  const throwing = {
    valueOf() {
      throw new Error('not today')
    },
  }
  for (const [kind, newLocation] of Object.entries(backends)) {
    it(`must be a number, not a value that converts to one (${kind})`, async () => {
      const store = await openStore(newLocation(), { keepPrevious: 1 })
      for (const name of ['one', 'two']) await store.saveSession(makeSession('s', { name }))
      for (const version of [null, false, [], [-1], new Date(0), 1n, Symbol('s'), throwing, new Number(-1)]) {
        await assert.rejects(store.loadSession('s', { version }), { code: 'WAYMARK_INVALID_ARGUMENT' })
        await assert.rejects(store.loadTaskTree('s', { version }), { code: 'WAYMARK_INVALID_ARGUMENT' })
      }
    })
  }

  it('null is rejected for keepPrevious', () => {
    assert.throws(() => new CheckpointStore('memory:', { keepPrevious: null }), { code: 'WAYMARK_INVALID_ARGUMENT' })
  })
})
