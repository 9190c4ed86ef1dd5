import assert from 'node:assert/strict'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import {
  OPTIONS,
  checkpointOf,
  forkOf,
  newCheckpointId,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

const asLink = { skip: process.platform === 'win32' && 'there it is a file' }

/** Parent, children and forks by checkpoint id. */
async function treeOf(store, id = 's') {
  const { checkpoints } = await store.history(id)
  return Object.fromEntries(checkpoints.map((node) => [node.id, [node.parent, node.children, node.forks]]))
}

/** Creates a checkpoint of session `s` with the given parent; resolves to its id. */
async function next(store, parent = null, options = {}) {
  return (await checkpointOf(store, makeSession('s', { lastCheckpointId: parent }), { ...OPTIONS, ...options }))
    .checkpointId
}

onEveryBackend('history', (open) => {
  it('lists checkpoints newest first with parents, children and forks', async () => {
    const store = await open()
    const root = await next(store, null, { label: 'root', trigger: 'milestone' })
    const left = await next(store, root, { compress: true })
    const right = await next(store, root)
    const leaf = await next(store, left, { description: 'a "leaf"' })
    await store.pinCheckpoint('s', root)
    await forkOf(store, left, 'b')
    await forkOf(store, left, 'a')
    await forkOf(store, leaf, 'c')
    const history = await store.history('s')
    assert.deepEqual(Object.keys(history), ['sessionId', 'checkpoints', 'damaged'])
    assert.deepEqual([history.sessionId, history.damaged], ['s', []])
    assert.deepEqual(await treeOf(store), {
      [leaf]: [left, [], ['c']],
      [right]: [root, [], []],
      [left]: [root, [leaf], ['a', 'b']],
      [root]: [undefined, [left, right], []],
    })
    const infos = history.checkpoints.map(({ children: _, forks: __, ...info }) => info)
    assert.deepEqual(infos, (await store.listCheckpointInfo('s')).checkpoints)
  })

  it('names the origin of a forked session', async () => {
    const store = await open()
    const root = await next(store)
    const { checkpointId } = await forkOf(store, root, 'fork')
    const history = await store.history('fork')
    assert.deepEqual(history.forkedFrom, { sessionId: 's', checkpointId: root })
    assert.deepEqual(await treeOf(store, 'fork'), { [checkpointId]: [undefined, [], []] })
    await store.deleteSession('s')
    assert.deepEqual(await store.history('fork'), history)
    await assert.rejects(store.history('s'), { code: 'WAYMARK_NOT_FOUND' })
  })

  it('leaves out deleted forks and forks of other sessions', async () => {
    const store = await open()
    const root = await next(store)
    await forkOf(store, root, 'gone')
    const { checkpointId } = await forkOf(store, root, 'stays')
    await store.forkSession({ sessionId: 'stays', checkpointId, newSessionId: 'grandchild' })
    await store.deleteSession('gone')
    assert.deepEqual((await treeOf(store))[root][2], ['stays'])
    assert.deepEqual((await treeOf(store, 'stays'))[checkpointId][2], ['grandchild'])
  })

  it('keeps the id of a pruned or deleted parent', async () => {
    const store = await open(3)
    const ids = [await next(store)]
    for (let count = 0; count < 4; count += 1) ids.push(await next(store, ids.at(-1)))
    await store.deleteCheckpoint('s', ids[3])
    assert.deepEqual(await treeOf(store), {
      [ids[4]]: [ids[3], [], []],
      [ids[2]]: [ids[1], [], []],
    })
  })

  it('starts a new branch after an older checkpoint was restored', async () => {
    const store = await open()
    const [first, second] = [await next(store), await next(store)]
    await store.restoreCheckpoint('s', first)
    const session = await store.loadSession('s')
    const other = (await checkpointOf(store, { ...session, taskTree: {} })).checkpointId
    assert.deepEqual(await treeOf(store), {
      [other]: [first, [], []],
      [second]: [undefined, [], []],
      [first]: [undefined, [other], []],
    })
  })

  it('accepts any lastCheckpointId', async () => {
    const store = await open()
    const itself = await next(store)
    for (const lastCheckpointId of [undefined, 'elsewhere', '', 'a "quoted" one', '__proto__', 7, { id: itself }]) {
      await checkpointOf(store, { ...makeSession('s'), lastCheckpointId })
    }
    const { checkpoints } = await store.history('s')
    assert.equal(checkpoints.length, 8)
    assert.deepEqual(checkpoints.find(({ id }) => id === itself).children, [])
  })

  it('works without checkpoints and without a session document', async () => {
    const store = await open()
    await store.saveSession(makeSession('saved'))
    assert.deepEqual(await store.history('saved'), { sessionId: 'saved', checkpoints: [], damaged: [] })
    await next(store)
    assert.equal((await store.history('s')).checkpoints.length, 1)
  })

  it('rejects an unknown session', async () => {
    const store = await open()
    await assert.rejects(store.history('unknown'), { code: 'WAYMARK_NOT_FOUND', message: 'Session not found: unknown' })
    await assert.rejects(store.history('../s'), { code: 'WAYMARK_INVALID_ID' })
    for (const id of [undefined, null, 7, {}]) {
      await assert.rejects(store.history(id), { code: 'WAYMARK_INVALID_ARGUMENT' })
    }
    assert.deepEqual(await store.sessionsInfo(), [])
  })

  it('follows a chain of thousands of checkpoints', async () => {
    const store = await open({ maxCheckpointsPerSession: Infinity, durability: 'relaxed' })
    const ids = []
    const session = makeSession('s', { taskTree: {} })
    for (let count = 0; count < 2000; count += 1) {
      const lastCheckpointId = ids.at(-1) ?? null
      ids.push((await checkpointOf(store, { ...session, lastCheckpointId })).checkpointId)
    }
    const { checkpoints } = await store.history('s')
    assert.deepEqual(
      checkpoints.map(({ id, parent, children }) => [id, parent, children]),
      ids.map((id, index) => [id, ids[index - 1], ids.slice(index + 1, index + 2)]).toReversed(),
    )
  })
})

describe('history of damaged files', () => {
  it('names damaged checkpoints and shows the others', async () => {
    const store = await openStore()
    const root = await next(store)
    const broken = await checkpointOf(store, makeSession('s', { lastCheckpointId: root }))
    const leaf = await next(store, broken.checkpointId)
    truncateSync(broken.path, 100)
    const { damaged } = await store.history('s')
    assert.deepEqual(damaged, [broken.checkpointId])
    assert.deepEqual(await treeOf(store), { [leaf]: [broken.checkpointId, [], []], [root]: [undefined, [], []] })
  })

  it('ignores damaged session documents, its own included', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const root = await next(store)
    await store.saveSession(makeSession('s'))
    for (const name of ['cut', 'list', 'odd', 'whole']) await forkOf(store, root, name)
    const write = (name, text) => writeFileSync(join(base, name, 'session.json'), text)
    write('cut', '{"forkedFrom": {')
    write('list', '[]')
    write('odd', JSON.stringify({ forkedFrom: { sessionId: '..', checkpointId: 7 } }))
    write('s', '{')
    assert.deepEqual(await treeOf(store), { [root]: [undefined, [], ['whole']] })
    assert.equal('forkedFrom' in (await store.history('odd')), false)
  })
})

describe('history of unusual files', () => {
  it('works if the session document is not text', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await newCheckpointId(store)
    await store.saveSession(makeSession('s'))
    writeFileSync(join(base, 's', 'session.json'), Buffer.from([0xff]))
    assert.deepEqual(
      (await store.history('s')).checkpoints.map((node) => node.id),
      [id],
    )
  })

  it('matches a parent by name, however JSON spells it', asLink, async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { path } = await checkpointOf(store, makeSession('s'))
    writeFileSync(join(base, 's', 'checkpoints', 'my "copy".json'), readFileSync(path))
    const { checkpointId } = await checkpointOf(store, makeSession('s', { lastCheckpointId: 'my "copy"' }))
    const { checkpoints } = await store.history('s')
    assert.deepEqual(checkpoints.find(({ id }) => id === 'my "copy"').children, [checkpointId])
  })
})
