import assert from 'node:assert/strict'
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join, relative } from 'node:path'
import { describe, it } from 'node:test'

import { contentsOfSession, fullStore } from '../support/full-session.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  OPTIONS,
  backends,
  checkpointOf,
  onEveryBackend,
  openStore,
  scratchDirectory,
  targetsFrom,
} from '../support/stores.mjs'

const newFile = () => join(scratchDirectory(), 'session.zst')

/** Item counts of session `full` of `filledStore`: checkpoints of the session and its agents; documents. */
const CHECKPOINTS = 4 + 3
const DOCUMENTS = 5

const versionsOf = async (store, id) => [
  await store.loadSession(id, { version: -1 }),
  await store.loadSession(id, { version: -2 }),
  await store.loadSession(id, { version: -3 }),
  await store.loadTaskTree(id, { version: -1 }),
  await store.loadTaskTree(id, { version: -2 }),
]

/** Gives a saved session two earlier versions and its tree one. */
async function saveAgain(store, id) {
  const { taskTree: _, ...session } = makeSession(id)
  for (const name of ['first', 'second', 'third']) await store.saveSession({ ...session, name, taskTree: {} })
  for (const count of [1, 2]) await store.saveTaskTree(id, makeTree(count))
}

for (const [source, newSource] of Object.entries(backends)) {
  for (const [target, newTarget] of Object.entries(targetsFrom(source))) {
    describe(`a session exported from ${source} and imported into ${target}`, () => {
      it('has everything, byte for byte', async () => {
        const from = await openStore(newSource(), { keepPrevious: 2 })
        await (await fullStore()).copyTo(from)
        const file = newFile()
        const result = await from.exportSession('full', file)
        const { sizeBytes } = (await from.sessionsInfo()).find(({ id }) => id === 'full')
        assert.deepEqual(result, {
          file,
          sessionId: 'full',
          checkpoints: CHECKPOINTS,
          documents: DOCUMENTS,
          bytes: sizeBytes,
          sizeBytes: statSync(file).size,
        })
        const to = await openStore(newTarget(), { keepPrevious: 2 })
        const { sessionId, checkpoints, documents, bytes } = await to.importSession(file)
        assert.deepEqual([sessionId, checkpoints, documents, bytes], ['full', CHECKPOINTS, DOCUMENTS, sizeBytes])
        const original = await contentsOfSession(from, 'full')
        assert.equal(original.whole, true)
        assert.deepEqual(
          original.infos.checkpoints.map(({ pinned }) => pinned),
          [undefined, undefined, true, true],
        )
        assert.deepEqual(await contentsOfSession(to, 'full'), original)
        const again = newFile()
        await to.exportSession('full', again)
        assert.deepEqual(readFileSync(again), readFileSync(file))
      })

      it('has its earlier versions and continues from there', async () => {
        const [from, to] = [
          await openStore(newSource(), { keepPrevious: 2 }),
          await openStore(newTarget(), { keepPrevious: 2 }),
        ]
        await saveAgain(from, 's')
        const file = newFile()
        await from.exportSession('s', file)
        await to.importSession(file)
        const versions = await versionsOf(from, 's')
        const seen = versions.map((version) => version && (version.name ?? Object.keys(version).length))
        assert.deepEqual(seen, ['second', 'first', null, 1, null])
        assert.deepEqual(await versionsOf(to, 's'), versions)
        await to.saveSession(makeSession('s', { name: 'fourth' }))
        const names = (await versionsOf(to, 's')).slice(0, 3).map((version) => version?.name)
        assert.deepEqual(names, ['third', 'second', undefined])
      })

      it('keeps the order of checkpoints with foreign ids', async () => {
        const files = await openStore()
        const { path } = await checkpointOf(files, makeSession('s'))
        for (const [name, time] of Object.entries({ b: 3000, a: 2000, c: 1000 })) {
          const copy = join(path, '..', `${name}.json`)
          cpSync(path, copy)
          utimesSync(copy, time, time)
        }
        const from = await openStore(newSource())
        await files.copyTo(from)
        const file = newFile()
        await from.exportSession('s', file)
        const to = await openStore(newTarget())
        await to.importSession(file)
        const order = async (store) => (await store.listCheckpointInfo('s')).checkpoints.map(({ id }) => id)
        assert.equal((await order(from)).length, 4)
        assert.deepEqual(await order(to), await order(from))
        const again = newFile()
        await to.exportSession('s', again)
        assert.deepEqual(readFileSync(again), readFileSync(file))
      })
    })
  }
}

onEveryBackend('importSession under another id', (open) => {
  it('changes the id in all versions of the document and keeps the original session', async () => {
    const store = await open({ keepPrevious: 2 })
    await saveAgain(store, 's')
    const { checkpointId } = await checkpointOf(store, makeSession('s', { name: 'third' }))
    const file = newFile()
    await store.exportSession('s', file)
    const untouched = await contentsOfSession(store, 's')
    assert.equal((await store.importSession(file, { as: 'other "2"' })).sessionId, 'other "2"')
    const loaded = await store.loadSession('other "2"')
    assert.deepEqual(loaded, { ...(await store.loadSession('s')), id: 'other "2"' })
    const versions = await versionsOf(store, 'other "2"')
    assert.deepEqual(
      versions.slice(0, 3).map((version) => version?.id),
      ['other "2"', 'other "2"', undefined],
    )
    assert.deepEqual(await store.getCheckpoint('other "2"', checkpointId), await store.getCheckpoint('s', checkpointId))
    const restored = await store.restoreCheckpoint('other "2"', checkpointId, { validateChecksum: true })
    assert.equal(restored.success, true, restored.error)
    await store.saveSession({ ...(await store.loadSession('other "2"')), name: 'changed', taskTree: {} })
    assert.deepEqual(await contentsOfSession(store, 's'), untouched)
    assert.equal((await store.loadSession('other "2"')).name, 'changed')
  })

  it('gives a session that continues like any other', async () => {
    const store = await open({ maxCheckpointsPerSession: 3 })
    for (let count = 0; count < 3; count += 1) await checkpointOf(store, makeSession('s'))
    const file = newFile()
    await store.exportSession('s', file)
    await store.importSession(file, { as: 'other' })
    const { checkpointId } = await checkpointOf(store, makeSession('other'))
    const { checkpoints } = await store.listCheckpointInfo('other')
    assert.equal(checkpoints.length, 3)
    assert.equal(checkpoints[0].id, checkpointId)
  })
})

onEveryBackend('importSession over an existing session', (open) => {
  it('changes nothing, whatever that session holds', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.saveTaskResult('result', 't', 1)
    await store.agent('agents', 'a').save({ iteration: 1 })
    await store.saveSession(makeSession('s', { name: 'newer' }))
    const sizes = async () => (await store.sessionsInfo()).map(({ id, sizeBytes }) => [id, sizeBytes])
    const sizesBefore = await sizes()
    for (const as of [undefined, 's', 'result', 'agents']) {
      await assert.rejects(store.importSession(file, { as }), { code: 'WAYMARK_EXISTS', message: /exists already/ })
    }
    assert.deepEqual(await sizes(), sizesBefore)
    assert.equal((await store.loadSession('s')).name, 'newer')
  })

  it('succeeds if only empty directories exist', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.deleteSession('s')
    await store.createSessionDirectory('s')
    await store.importSession(file)
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('succeeds once for concurrent calls', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.deleteSession('s')
    const tried = await Promise.allSettled(Array.from({ length: 5 }, () => store.importSession(file)))
    assert.deepEqual(tried.map(({ status, reason }) => reason?.code ?? status).toSorted(), [
      'WAYMARK_EXISTS',
      'WAYMARK_EXISTS',
      'WAYMARK_EXISTS',
      'WAYMARK_EXISTS',
      'fulfilled',
    ])
  })
})

onEveryBackend('exportSession', (open) => {
  it('creates no file for a session that does not exist', async () => {
    const store = await open()
    const file = newFile()
    await store.createSessionDirectory('empty')
    for (const id of ['unknown', 'empty']) {
      await assert.rejects(store.exportSession(id, file), { code: 'WAYMARK_NOT_FOUND', message: /Session not found/ })
    }
    assert.deepEqual(readdirSync(join(file, '..')), [])
  })

  it('exports a whole session while checkpoints are created and deleted', async () => {
    const store = await open({ maxCheckpointsPerSession: 5, durability: 'relaxed' })
    await checkpointOf(store, makeSession('s'))
    const state = { isOver: false }
    const writing = (async () => {
      while (!state.isOver) {
        await checkpointOf(store, makeSession('s'))
        await store.saveSession(makeSession('s'))
      }
    })()
    const other = await openStore('memory:')
    for (let count = 0; count < 20; count += 1) {
      const file = newFile()
      const { checkpoints, documents, bytes } = await store.exportSession('s', file)
      const imported = await other.importSession(file, { as: `s-${count}` })
      assert.deepEqual(imported, { sessionId: `s-${count}`, checkpoints, documents, bytes })
      assert.equal((await other.verifySession(`s-${count}`)).whole, true)
    }
    state.isOver = true
    await writing
  })
})

describe('the export file', () => {
  const filled = async () => {
    const store = await openStore()
    await store.saveSession(makeSession('s'))
    return store
  }

  it('is readable by its owner only and nothing else is left beside it', async () => {
    const store = await filled()
    const file = newFile()
    await store.exportSession('s', file)
    if (process.platform !== 'win32') assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(join(file, '..')), ['session.zst'])
  })

  it('does not replace an existing file', async () => {
    const store = await filled()
    const directory = scratchDirectory()
    const [file, below] = [join(directory, 'file'), join(directory, 'below')]
    writeFileSync(file, 'mine')
    mkdirSync(below)
    for (const taken of [file, below]) {
      await assert.rejects(store.exportSession('s', taken), (error) => {
        assert.equal(error.code, 'WAYMARK_EXISTS')
        assert.ok(error.message.startsWith(`${taken} exists already`), error.message)
        return true
      })
    }
    assert.equal(readFileSync(file, 'utf8'), 'mine')
    assert.deepEqual(readdirSync(directory).toSorted(), ['below', 'file'])
    const tried = await Promise.allSettled(
      Array.from({ length: 5 }, () => store.exportSession('s', join(directory, 'race'))),
    )
    assert.equal(tried.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.deepEqual(readdirSync(directory).toSorted(), ['below', 'file', 'race'])
    await (await openStore('memory:')).importSession(join(directory, 'race'))
  })

  it('needs an existing directory', async () => {
    const store = await filled()
    const directory = scratchDirectory()
    writeFileSync(join(directory, 'file'), '')
    for (const [name, code] of [
      ['missing/s.zst', 'ENOENT'],
      ['file/s.zst', process.platform === 'win32' ? 'ENOENT' : 'ENOTDIR'],
    ]) {
      await assert.rejects(store.exportSession('s', join(directory, name)), (error) => {
        assert.equal(error.code, 'WAYMARK_IO')
        assert.equal(error.cause.code, code)
        assert.ok(error.message.includes(join(directory, name)), error.message)
        return true
      })
    }
    assert.deepEqual(readdirSync(directory), ['file'])
  })

  it('resolves relative paths at the call and ~ as the home directory', async () => {
    const store = await filled()
    const file = newFile()
    assert.equal((await store.exportSession('s', relative('.', file))).file, file)
    await (await openStore('memory:')).importSession(relative('.', file))
    const beyond = '~/waymark-no-such-directory/x.zst'
    await assert.rejects(store.exportSession('s', beyond), (error) => error.message.includes(homedir()))
  })

  it('holds everything the store knows, damaged or not, and nothing else', async () => {
    const store = await openStore()
    const base = store.getBaseDir()
    await store.createSessionDirectory('s')
    await store.saveSession(makeSession('s'))
    const moved = await checkpointOf(store, makeSession('s'))
    appendFileSync(moved.path, 'x')
    await checkpointOf(store, makeSession('s'))
    await store.recoverSession('s', { quarantine: true })
    truncateSync((await checkpointOf(store, makeSession('s'))).path, 700)
    appendFileSync((await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true })).path, 'x')
    writeFileSync(join(base, 's', 'task-tree.json'), '{"torn')
    writeFileSync(join(base, 's', 'logs', 'today.log'), 'hello')
    writeFileSync(join(base, 's', 'notes.txt'), 'hello')
    const file = newFile()
    await store.exportSession('s', file)
    const other = await openStore()
    await other.importSession(file)
    const there = snapshotOf(join(other.getBaseDir(), 's'))
    assert.deepEqual(Object.keys(there).toSorted(), ['checkpoints/', 'latest', 'session.json', 'task-tree.json'])
    const here = snapshotOf(join(base, 's'))
    delete there['checkpoints/']['.names']
    delete here['checkpoints/']['.names']
    for (const name of Object.keys(there)) assert.deepEqual(there[name], here[name], name)
    const { whole, checkpoints } = await other.verifySession('s')
    assert.equal(whole, false)
    assert.deepEqual(
      checkpoints.map((checkpoint) => checkpoint.whole),
      [false, false, true, false].slice(0, checkpoints.length),
    )
  })

  it('gives an imported session in files a link to the newest checkpoint', async (t) => {
    if (process.platform === 'win32') return t.skip('links need rights')
    const from = await openStore('memory:')
    await checkpointOf(from, makeSession('s'))
    const { checkpointId } = await checkpointOf(from, makeSession('s'))
    const file = newFile()
    await from.exportSession('s', file)
    const to = await openStore()
    await to.importSession(file)
    assert.equal(readlinkSync(join(to.getBaseDir(), 's', 'latest')), join('checkpoints', `${checkpointId}.json`))
    assert.deepEqual(readdirSync(to.getBaseDir()), ['s'])
  })
})
