import assert from 'node:assert/strict'
import {
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession, makeTask } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  CheckpointStore,
  OPTIONS,
  checkpointOf,
  onEveryBackend,
  openStore,
  places,
  scratchDirectory,
} from '../support/stores.mjs'
import { lookedDuring } from '../support/waiting.mjs'

const asLink = { skip: process.platform === 'win32' && 'there it is a file' }

async function made(store, options = {}) {
  return (await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })).checkpointId
}

const successes = (results) => results.filter(({ success }) => success).length

describe('labels', () => {
  it('can be given in a store in memory', async () => {
    // In a process of its own: a lock that is waited for by its own holder would keep this one from ending.
    const { stdout } = await runNode(
      `
      const store = new CheckpointStore('memory:')
      await store.initialize()
      const { checkpointId } = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
      console.log((await store.labelCheckpoint('s', checkpointId, 'green')).success)
    `,
      { timeout: 10_000 },
    )
    assert.equal(stdout, 'true\n')
  })

  it('that must be unique go to one of several that ask at once', async () => {
    const store = await openStore()
    const ids = [await made(store), await made(store)]
    for (let round = 0; round < 10; round += 1) {
      const label = `label ${round}`
      const results = await Promise.all(ids.map((id) => store.labelCheckpoint('s', id, label, { unique: true })))
      assert.equal(successes(results), 1)
      assert.equal((await store.listCheckpointInfo('s', { label })).checkpoints.length, 1)
    }
  })

  it('in a file that holds no object are reported by a verification, as they are by who changes them', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await made(store)
    for (const text of ['[1]', '"x"', 'null', '7']) {
      writeFileSync(join(base, 's', 'labels.json'), text)
      assert.equal((await store.labelCheckpoint('s', id, 'x')).code, 'WAYMARK_CORRUPT')
      assert.equal((await store.verifySession('s')).whole, false, text)
    }
  })

  it('that are no text are refused, as ids are', async () => {
    const store = await openStore()
    const id = await made(store)
    assert.equal((await store.labelCheckpoint('s', id, '\ud800')).code, 'WAYMARK_INVALID_ARGUMENT')
    await assert.rejects(store.getCheckpointByLabel('s', '\ud801'), { code: 'WAYMARK_INVALID_ARGUMENT' })
  })
})

onEveryBackend('unique labels of new checkpoints', (open) => {
  it('go to one of several that are made at once', async () => {
    const store = await open()
    for (let round = 0; round < 10; round += 1) {
      const options = { ...OPTIONS, label: `label ${round}`, uniqueLabel: true }
      const calls = Array.from({ length: 3 }, () => store.createCheckpoint(makeSession('s'), {}, {}, options))
      assert.equal(successes(await Promise.all(calls)), 1)
    }
  })
})

describe('the pin of a checkpoint', () => {
  it('does not stay behind when the checkpoint is moved aside', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { path, checkpointId } = await checkpointOf(store, makeSession('s'))
    await store.pinCheckpoint('s', checkpointId)
    truncateSync(path, 10)
    await store.recoverSession('s', { quarantine: true })
    assert.deepEqual(readdirSync(join(base, 's', 'checkpoints')), ['.names'])
  })
})

onEveryBackend('a fork', (open) => {
  it('is made by one of several that ask for the same session at once', async () => {
    const store = await open()
    const checkpointId = await made(store)
    for (let round = 0; round < 10; round += 1) {
      const newSessionId = `fork ${round}`
      const calls = Array.from({ length: 3 }, () => store.forkSession({ sessionId: 's', checkpointId, newSessionId }))
      const results = await Promise.all(calls)
      assert.equal(successes(results), 1)
      for (const { success, code } of results) assert.ok(success || code === 'WAYMARK_EXISTS', code)
      assert.equal((await store.listCheckpointInfo(newSessionId)).total, 1)
    }
  })

  it('is refused where anything of a session is: a task tree, a result, an agent', async () => {
    const store = await open()
    const checkpointId = await made(store)
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

describe('a fork that fails', () => {
  it('leaves nothing behind, so that it can be tried again', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const checkpointId = await made(store)
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

describe('a history', () => {
  it('is there when the session’s own document is no text', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await made(store)
    await store.saveSession(makeSession('s'))
    writeFileSync(join(base, 's', 'session.json'), Buffer.from([0xff]))
    assert.deepEqual(
      (await store.history('s')).checkpoints.map((node) => node.id),
      [id],
    )
  })

  it('knows a parent by its name, however JSON spells it', asLink, async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { path } = await checkpointOf(store, makeSession('s'))
    writeFileSync(join(base, 's', 'checkpoints', 'my "copy".json'), readFileSync(path))
    const { checkpointId } = await checkpointOf(store, makeSession('s', { lastCheckpointId: 'my "copy"' }))
    const { checkpoints } = await store.history('s')
    assert.deepEqual(checkpoints.find(({ id }) => id === 'my "copy"').children, [checkpointId])
  })
})

describe('earlier versions', () => {
  it('are the ones before, or none, after fewer were wanted', async () => {
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

  it('that are kept are there at every moment, too', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 2, durability: 'relaxed' })
    for (let count = 0; count < 3; count += 1) await store.saveSession(makeSession('s'))
    const write = async () => {
      for (let count = 0; count < 200; count += 1) await store.saveSession(makeSession('s', { name: `${count}` }))
    }
    const missing = [0, 0, 0]
    await lookedDuring(write(), async () => {
      for (const back of [0, 1, 2]) if (!(await store.loadSession('s', { version: -back }))) missing[back] += 1
    })
    assert.deepEqual(missing, [0, 0, 0])
  })

  it('leave no temporary behind where the one before is the current one under a second name', async () => {
    // As it is after a process died between making room for a new version and writing it.
    const base = scratchDirectory()
    const store = await openStore(base, { keepPrevious: 1 })
    await store.saveSession(makeSession('s', { name: 'one' }))
    linkSync(join(base, 's', 'session.json'), join(base, 's', 'session.1.json'))
    await store.saveSession(makeSession('s', { name: 'two' }))
    assert.deepEqual(readdirSync(join(base, 's')).toSorted(), ['.lock', 'session.1.json', 'session.json'])
    assert.equal((await store.loadSession('s', { version: -1 })).name, 'one')
  })
})

describe('a version', () => {
  const throwing = {
    valueOf() {
      throw new Error('not today')
    },
  }
  for (const [kind, newPlace] of Object.entries(places)) {
    it(`is a number, and not what can be made into one (${kind})`, async () => {
      const store = await openStore(newPlace(), { keepPrevious: 1 })
      for (const name of ['one', 'two']) await store.saveSession(makeSession('s', { name }))
      for (const version of [null, false, [], [-1], new Date(0), 1n, Symbol('s'), throwing, new Number(-1)]) {
        await assert.rejects(store.loadSession('s', { version }), { code: 'WAYMARK_INVALID_ARGUMENT' })
        await assert.rejects(store.loadTaskTree('s', { version }), { code: 'WAYMARK_INVALID_ARGUMENT' })
      }
    })
  }

  it('is not kept null times: the other limits refuse null too', () => {
    assert.throws(() => new CheckpointStore('memory:', { keepPrevious: null }), { code: 'WAYMARK_INVALID_ARGUMENT' })
  })
})

describe('the link to the newest checkpoint', asLink, () => {
  const target = (base) => readlinkSync(join(base, 's', 'latest'))

  it('names none that is gone after several stores have deleted in turns', async () => {
    const base = scratchDirectory()
    const [mine, theirs] = [await openStore(base), await openStore(base)]
    const ids = [await made(mine), await made(mine), await made(mine)]
    await theirs.deleteCheckpoint('s', ids[2])
    assert.equal(target(base), `checkpoints/${ids[1]}.json`)
    await mine.deleteCheckpoint('s', ids[1])
    assert.equal(target(base), `checkpoints/${ids[0]}.json`)
  })

  it('goes with the last of them, whoever deleted those before', async () => {
    const base = scratchDirectory()
    const [mine, theirs] = [await openStore(base, 2), await openStore(base, 2)]
    const ids = []
    for (let count = 0; count < 4; count += 1) ids.push(await made(mine))
    await theirs.deleteCheckpoint('s', ids[3])
    await mine.deleteCheckpoint('s', ids[2])
    assert.equal((await mine.listCheckpointInfo('s')).total, 0)
    assert.equal(readdirSync(join(base, 's')).includes('latest'), false)
  })

  it('comes with a copy whose newest checkpoint is pinned', async () => {
    const [base, other] = [scratchDirectory(), scratchDirectory()]
    const store = await openStore(base)
    const id = await made(store)
    await store.pinCheckpoint('s', id)
    await store.copyTo(await openStore(other))
    assert.equal(readdirSync(join(other, 's')).includes('latest'), true)
    assert.equal(target(other), `checkpoints/${id}.json`)
  })

  it('that cannot be made keeps nobody from removing checkpoints', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    mkdirSync(join(base, 's', 'latest', 'inside'), { recursive: true })
    const ids = []
    for (let count = 0; count < 4; count += 1) ids.push(await made(store))
    assert.equal((await store.listCheckpointInfo('s')).total, 2, 'the limit holds')
    assert.deepEqual(await store.deleteCheckpoint('s', ids[3]), { success: true })
    const { path } = await checkpointOf(store, makeSession('s'))
    truncateSync(path, 10)
    const recovered = await store.recoverSession('s', { quarantine: true })
    assert.deepEqual([recovered.success, recovered.passedOver.length], [true, 1])
    assert.deepEqual(snapshotOf(join(base, 's', 'latest')), { 'inside/': {} })
  })

  it('does not take the place of a file of somebody else', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    writeFileSync(join(base, 's', 'latest'), 'mine')
    const ids = [await made(store), await made(store)]
    await store.deleteCheckpoint('s', ids[1])
    assert.equal(readFileSync(join(base, 's', 'latest'), 'utf8'), 'mine')
  })
})
