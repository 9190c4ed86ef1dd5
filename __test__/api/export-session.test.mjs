// exportSession and importSession: what is in the file, and what is in the store afterwards.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
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
import zlib from 'node:zlib'

import { archiveOf, membersOf } from '../support/export-files.mjs'
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

const newFile = () => join(scratchDirectory(), 'session.tar.zst')

/** An export file of the session `s` with these items. */
function fileWith(...items) {
  const file = newFile()
  writeFileSync(file, archiveOf(items))
  return file
}

/** Of the session `full` of `filledStore`: the checkpoints of the session and of its agents, and the documents. */
const CHECKPOINTS = 4 + 3
const DOCUMENTS = 5

/** Runs a program; what it prints, or `null` where it is missing. */
function outputOf(program, args, options = {}) {
  const { error, status, stdout, stderr } = spawnSync(program, args, { maxBuffer: 1 << 30, ...options })
  if (error?.code === 'ENOENT') return null
  assert.equal(status, 0, String(stderr))
  return stdout
}

/** The tar in an export file; `null` where this Node.js cannot decompress zstd and there is no `zstd`. */
const tarIn = (file) => zlib.zstdDecompressSync?.(readFileSync(file)) ?? outputOf('zstd', ['-dc', file])

const NO_ZSTD = 'neither this Node.js nor a program can decompress zstd'
const NO_TAR = 'there is no tar, or no zstd for it'

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** Ids as long as they may be, of a session, an agent, a task and a checkpoint. */
const LONG = {
  session: 's'.repeat(200),
  agent: '検'.repeat(66),
  task: `t ${'é'.repeat(99)}`,
  checkpoint: 'c'.repeat(200),
}

async function exportedWithLongIds() {
  const files = await openStore()
  await files.saveSession(makeSession(LONG.session))
  const { path } = await checkpointOf(files, makeSession(LONG.session))
  cpSync(path, join(path, '..', `${LONG.checkpoint}.json`))
  utimesSync(join(path, '..', `${LONG.checkpoint}.json`), 1_700_000_000, 1_700_000_000)
  await files.saveTaskResult(LONG.session, LONG.task, 'result')
  await files.agent(LONG.session, LONG.agent).save({ iteration: 1 })
  await files.pinCheckpoint(LONG.session, LONG.checkpoint)
  const file = newFile()
  await files.exportSession(LONG.session, file)
  return { files, file, directory: join(files.getBaseDir(), LONG.session) }
}

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
      it('is equal in everything that can be read, and exports to the same bytes', async () => {
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

      it('keeps its earlier versions and adds the next', async () => {
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

      it('keeps the order of checkpoints whose ids have no time', async () => {
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
  it('sets the id in the document and its versions, and leaves the other session alone', async () => {
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

  it('makes a session with retention like any other', async () => {
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

onEveryBackend('importSession of an id that exists', (open) => {
  it('rejects with WAYMARK_EXISTS and changes nothing, whatever the session holds', async () => {
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

  it('imports if there are only empty directories', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.deleteSession('s')
    await store.createSessionDirectory('s')
    await store.importSession(file)
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('imports once when called several times at once', async () => {
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
    for (const id of ['missing', 'empty']) {
      await assert.rejects(store.exportSession(id, file), { code: 'WAYMARK_NOT_FOUND', message: /Session not found/ })
    }
    assert.deepEqual(readdirSync(join(file, '..')), [])
  })

  it('imports a checkpoint of the last possible date, after which others can be created', async () => {
    const store = await open()
    await store.importSession(fileWith(['checkpoints/x.json', '{}', { madeAt: 8.64e15 }]))
    await checkpointOf(store, makeSession('s'))
  })

  it('exports a session whose files are all empty', async () => {
    const store = await open()
    await store.importSession(fileWith(['session.json', ''], ['checkpoints/x.json', '']))
    const file = newFile()
    const { checkpoints, documents } = await store.exportSession('s', file)
    assert.deepEqual({ checkpoints, documents }, { checkpoints: 1, documents: 1 })
  })

  it('rejects a session that has only labels of deleted checkpoints with WAYMARK_NOT_FOUND', async () => {
    const store = await open({ maxCheckpointsPerSession: 1 })
    const labelled = await checkpointOf(store, makeSession('s'))
    await store.labelCheckpoint('s', labelled.checkpointId, 'blue')
    // Retention removes the labelled checkpoint; its label stays in the document.
    const newest = await checkpointOf(store, makeSession('s'))
    await store.deleteCheckpoint('s', newest.checkpointId)
    await assert.rejects(store.exportSession('s', newFile()), { code: 'WAYMARK_NOT_FOUND' })
  })

  it('writes a whole session while checkpoints are created and removed', async () => {
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

describe('the format of the export file', () => {
  it('is a tar with plain headers, a head and a manifest of everything', async (t) => {
    const { file, directory, files } = await exportedWithLongIds()
    const tar = tarIn(file)
    if (!tar) return t.skip(NO_ZSTD)
    const members = membersOf(tar)
    for (const { name, mode, uid, gid, mtime } of members) {
      const seconds = name.includes(LONG.checkpoint) ? 1_700_000_000 : mtime
      assert.deepEqual([mode, uid, gid, mtime], [0o644, 0, 0, seconds], name)
      if (!/^(checkpoints|agents)\//.test(name)) assert.equal(mtime, 0, name)
    }
    const head = JSON.parse(members[0].content)
    assert.equal(members[0].name, 'waymark.json')
    assert.deepEqual([head.waymark, head.version, head.sessionId], ['session', 1, LONG.session])
    assert.ok(head.items >= 5)
    const last = members.at(-1)
    assert.equal(last.name, 'manifest.json')
    const manifest = JSON.parse(last.content)
    const items = members.slice(1, -1)
    assert.deepEqual(
      [manifest.items, manifest.bytes],
      [5, items.reduce((total, { content }) => total + content.length, 0)],
    )
    assert.deepEqual(
      manifest.members.map(({ name, size, sha256: hash }) => [name, size, hash]),
      members.slice(0, -1).map(({ name, content }) => [name, content.length, sha256(content)]),
    )
    const long = manifest.members.find(({ name }) => name.includes(LONG.checkpoint))
    assert.deepEqual([long.pinned, long.madeAt], [true, 1_700_000_000_000])
    for (const { name, content } of items) assert.deepEqual(content, readFileSync(join(directory, name)), name)
    const other = await openStore('memory:')
    await other.importSession(file)
    assert.deepEqual(await other.listCheckpointInfo(LONG.session), await files.listCheckpointInfo(LONG.session))
    assert.equal(await other.loadTaskResult(LONG.session, LONG.task), 'result')
  })

  it('is listed and extracted by tar', async (t) => {
    const { file, directory } = await exportedWithLongIds()
    const env = { ...process.env, LC_ALL: 'C.UTF-8' }
    const canRun = ['tar', 'zstd'].every((program) => outputOf(program, ['--version']))
    const isGnu = canRun && outputOf('tar', ['--version']).includes('GNU tar')
    if (!isGnu) return t.skip(NO_TAR)
    const list = outputOf('tar', ['--zstd', '--quoting-style=literal', '-tf', file], { env })
    const names = list.toString().trimEnd().split('\n')
    assert.equal(names[0], 'waymark.json')
    assert.equal(names.at(-1), 'manifest.json')
    assert.ok(names.includes(`checkpoints/${LONG.checkpoint}.json`) && names.includes(`results/${LONG.task}.json`))
    const to = scratchDirectory()
    outputOf('tar', ['--zstd', '-xf', file, '-C', to], { env })
    for (const name of names.slice(1, -1)) {
      assert.deepEqual(readFileSync(join(to, name)), readFileSync(join(directory, name)), name)
    }
    const manifest = JSON.parse(readFileSync(join(to, 'manifest.json'), 'utf8'))
    assert.deepEqual(
      manifest.members.map(({ name }) => sha256(readFileSync(join(to, name)))),
      manifest.members.map(({ sha256: hash }) => hash),
    )
  })
})

describe('the export file', () => {
  const filled = async () => {
    const store = await openStore()
    await store.saveSession(makeSession('s'))
    return store
  }

  it('is readable for its owner only, and the only file that is left', async () => {
    const store = await filled()
    const file = newFile()
    await store.exportSession('s', file)
    if (process.platform !== 'win32') assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(join(file, '..')), ['session.tar.zst'])
  })

  it('never replaces what has its name', async () => {
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

  it('may have a relative path, or one that begins with ~', async () => {
    const store = await filled()
    const file = newFile()
    assert.equal((await store.exportSession('s', relative('.', file))).file, file)
    await (await openStore('memory:')).importSession(relative('.', file))
    const beyond = '~/waymark-no-such-directory/x.zst'
    await assert.rejects(store.exportSession('s', beyond), (error) => error.message.includes(homedir()))
  })

  it('holds all items of the session, damaged or not, and no other files', async () => {
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

  it('is imported into directories with a link to the newest checkpoint', async (t) => {
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
