import assert from 'node:assert/strict'
import {
  appendFileSync,
  cpSync,
  existsSync,
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
import { before, describe, it } from 'node:test'

import { everythingOf, filledStore } from './support/filled.mjs'
import { killNode, runNode } from './support/processes.mjs'
import { makeSession, makeTree } from './support/sessions.mjs'
import { snapshotOf } from './support/snapshot.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, places, scratchDirectory } from './support/stores.mjs'

const newFile = () => join(scratchDirectory(), 'session.zst')

/** What is in the store of `filledStore`, in the session `full`: checkpoints of the session and its agents; documents. */
const CHECKPOINTS = 4 + 3
const DOCUMENTS = 5

const versionsOf = async (store, id) => [
  await store.loadSession(id, { version: -1 }),
  await store.loadSession(id, { version: -2 }),
  await store.loadSession(id, { version: -3 }),
  await store.loadTaskTree(id, { version: -1 }),
  await store.loadTaskTree(id, { version: -2 }),
]

/** Gives a saved session two earlier versions, and its tree one. */
async function saveAgain(store, id) {
  const { taskTree: _, ...session } = makeSession(id)
  for (const name of ['first', 'second', 'third']) await store.saveSession({ ...session, name, taskTree: {} })
  for (const count of [1, 2]) await store.saveTaskTree(id, makeTree(count))
}

for (const [source, newSource] of Object.entries(places)) {
  for (const [target, newTarget] of Object.entries(places)) {
    describe(`a session that goes from ${source} to ${target} as a file`, () => {
      it('has everything, byte for byte', async () => {
        const from = await openStore(newSource(), { keepPrevious: 2 })
        await (await filledStore()).copyTo(from)
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
        const original = await everythingOf(from, 'full')
        assert.equal(original.whole, true)
        assert.deepEqual(
          original.infos.checkpoints.map(({ pinned }) => pinned),
          [undefined, undefined, true, true],
        )
        assert.deepEqual(await everythingOf(to, 'full'), original)
        const again = newFile()
        await to.exportSession('full', again)
        assert.deepEqual(readFileSync(again), readFileSync(file))
      })

      it('has its earlier versions, and goes on from there', async () => {
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

      it('has the order of checkpoints whose ids say nothing of it', async () => {
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

onEveryBackend('a session that comes in under another id', (open) => {
  it('has that id in its document and the versions of it, and leaves the other alone', async () => {
    const store = await open({ keepPrevious: 2 })
    await saveAgain(store, 's')
    const { checkpointId } = await checkpointOf(store, makeSession('s', { name: 'third' }))
    const file = newFile()
    await store.exportSession('s', file)
    const untouched = await everythingOf(store, 's')
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
    assert.deepEqual(await everythingOf(store, 's'), untouched)
    assert.equal((await store.loadSession('other "2"')).name, 'changed')
  })

  it('goes on as any other does', async () => {
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

onEveryBackend('a session that exists', (open) => {
  it('is left as it is by an import, whatever it holds', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.saveTaskResult('result', 't', 1)
    await store.agent('agents', 'a').save({ iteration: 1 })
    await store.saveSession(makeSession('s', { name: 'newer' }))
    const sizes = async () => (await store.sessionsInfo()).map(({ id, sizeBytes }) => [id, sizeBytes])
    const before = await sizes()
    for (const as of [undefined, 's', 'result', 'agents']) {
      await assert.rejects(store.importSession(file, { as }), { code: 'WAYMARK_EXISTS', message: /exists already/ })
    }
    assert.deepEqual(await sizes(), before)
    assert.equal((await store.loadSession('s')).name, 'newer')
  })

  it('as directories alone is no hindrance', async () => {
    const store = await open()
    const file = newFile()
    await store.saveSession(makeSession('s'))
    await store.exportSession('s', file)
    await store.deleteSession('s')
    await store.createSessionDirectory('s')
    await store.importSession(file)
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('comes in once, however many try', async () => {
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

onEveryBackend('an export', (open) => {
  it('of a session that does not exist makes no file', async () => {
    const store = await open()
    const file = newFile()
    await store.createSessionDirectory('empty')
    for (const id of ['nobody', 'empty']) {
      await assert.rejects(store.exportSession(id, file), { code: 'WAYMARK_NOT_FOUND', message: /Session not found/ })
    }
    assert.deepEqual(readdirSync(join(file, '..')), [])
  })

  it('while checkpoints come and go is a session that is whole', async () => {
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

describe('the file of an export', () => {
  const filled = async () => {
    const store = await openStore()
    await store.saveSession(makeSession('s'))
    return store
  }

  it('is for its owner only, and nothing else is left beside it', async () => {
    const store = await filled()
    const file = newFile()
    await store.exportSession('s', file)
    if (process.platform !== 'win32') assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(join(file, '..')), ['session.zst'])
  })

  it('takes no name that is taken', async () => {
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

  it('needs a directory to be in', async () => {
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

  it('is where a relative path leads when it is called, and ~ is the home directory', async () => {
    const store = await filled()
    const file = newFile()
    assert.equal((await store.exportSession('s', relative('.', file))).file, file)
    await (await openStore('memory:')).importSession(relative('.', file))
    const beyond = '~/waymark-no-such-directory/x.zst'
    await assert.rejects(store.exportSession('s', beyond), (error) => error.message.includes(homedir()))
  })

  it('has everything that the store knows, damaged or not, and nothing else', async () => {
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

  it('gives directories a link to the newest, and no more than the session', async (t) => {
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

/** A session that takes a moment to pack, in files, and packed. */
const large = {}
before(async () => {
  large.base = scratchDirectory()
  large.file = newFile()
  const { code, stderr } = await runNode(
    `
    import { randomBytes } from 'node:crypto'
    const [base, file] = process.argv.slice(1)
    const store = new CheckpointStore(base, { durability: 'relaxed', maxCheckpointsPerSession: Infinity })
    await store.initialize()
    for (let count = 0; count < 60; count += 1) {
      const session = { id: 's', name: 'large', status: 'active', taskTree: {}, checkpointIds: [] }
      const text = randomBytes(750_000).toString('hex')
      const { success } = await store.createCheckpoint(session, {}, { text }, { trigger: 'auto', includeContext: true })
      if (!success) process.exit(1)
    }
    await store.exportSession('s', file)
  `,
    { args: [large.base, large.file] },
  )
  assert.equal(code, 0, stderr)
})

onEveryBackend('the progress of an import', (open) => {
  it('is told now and then, in order, and to its end', async () => {
    const store = await open({ durability: 'relaxed' })
    const told = []
    let isSettled = false
    const start = performance.now()
    await store.importSession(large.file, {
      onProgress(progress) {
        assert.equal(isSettled, false)
        told.push(progress)
      },
    })
    isSettled = true
    assert.ok(told.length <= (performance.now() - start) / 50 + 2, `${told.length}`)
    const order = ['check', 'import']
    for (const [index, { phase, done, total, bytes }] of told.entries()) {
      const before = told[index - 1] ?? { phase: 'check', done: 0, bytes: 0 }
      const isNext = order.indexOf(phase) > order.indexOf(before.phase)
      assert.ok(isNext || (phase === before.phase && done >= before.done && bytes >= before.bytes))
      assert.ok(done <= total)
    }
    const last = told.at(-1)
    assert.deepEqual([last.phase, last.done, last.total, last.bytes], ['import', 60, 60, last.totalBytes])
    const count = told.length
    await new Promise((resolve) => setTimeout(resolve, 120))
    assert.equal(told.length, count)
  })

  it('may be ended by an exception, which is the answer', async () => {
    const store = await open({ durability: 'relaxed' })
    for (const phase of ['check', 'import']) {
      const thrown = new RangeError(`enough of ${phase}`)
      let told = 0
      const work = store.importSession(large.file, {
        onProgress(progress) {
          if (progress.phase !== phase) return
          told += 1
          throw thrown
        },
      })
      await assert.rejects(work, (error) => error === thrown)
      assert.equal(told, 1)
    }
    assert.deepEqual(await store.sessionsInfo(), [])
    const base = store.getBaseDir()
    if (!base.includes(':')) assert.deepEqual(readdirSync(base), [])
  })
})

describe('the progress of an export', () => {
  it('is told now and then, and at its end', async () => {
    const store = await openStore(large.base)
    const told = []
    const { bytes } = await store.exportSession('s', newFile(), { onProgress: (progress) => told.push(progress) })
    assert.deepEqual(told.at(-1), { phase: 'export', done: 60, total: 60, bytes })
    assert.ok(told.length > 2)
  })

  it('may be ended by anything that is thrown, and then there is no file', async () => {
    const store = await openStore(large.base)
    for (const thrown of [new Error('enough'), 'enough', undefined, null]) {
      const file = newFile()
      const work = store.exportSession('s', file, {
        onProgress() {
          throw thrown
        },
      })
      await assert.rejects(
        work.then(() => assert.fail()),
        (error) => error === thrown,
      )
      assert.deepEqual(readdirSync(join(file, '..')), [])
    }
  })

  it('does not keep the process', async () => {
    const { code, stdout } = await runNode(
      `
      const [base, file] = process.argv.slice(1)
      const store = new CheckpointStore(base)
      await store.initialize()
      await store.exportSession('s', file, { onProgress() {} })
      console.log('done')
    `,
      { args: [large.base, newFile()] },
    )
    assert.deepEqual([code, stdout], [0, 'done\n'])
  })
})

onEveryBackend('a signal', (open) => {
  const isAbortError = (reason) => (error) => {
    assert.ok(error instanceof Error)
    assert.deepEqual([error.name, error.code, error.message], ['AbortError', 'ABORT_ERR', 'The operation was aborted'])
    assert.equal(error.cause, reason)
    return true
  }

  it('that was given before keeps everything from being touched', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    const file = newFile()
    const signal = AbortSignal.abort()
    await assert.rejects(store.exportSession('s', file, { signal }), isAbortError(signal.reason))
    await assert.rejects(store.importSession(file, { signal }), isAbortError(signal.reason))
    const own = AbortSignal.abort('my reason')
    await assert.rejects(store.exportSession('s', file, { signal: own }), isAbortError('my reason'))
    assert.deepEqual(readdirSync(join(file, '..')), [])
  })

  it('in the middle of an import leaves nothing, and later it works', async () => {
    const store = await open()
    for (const phase of ['check', 'import']) {
      const controller = new AbortController()
      const reason = new Error('changed my mind')
      const work = store.importSession(large.file, {
        signal: controller.signal,
        onProgress: (progress) => progress.phase === phase && controller.abort(reason),
      })
      await assert.rejects(work, isAbortError(reason))
      assert.deepEqual(await store.sessionsInfo(), [])
      const base = store.getBaseDir()
      if (!base.includes(':')) assert.deepEqual(readdirSync(base), [])
    }
    await store.importSession(large.file)
    assert.equal((await store.listCheckpointInfo('s')).total, 60)
  })

  it('in the middle of an export leaves no file', async () => {
    const store = await open({ durability: 'relaxed', maxCheckpointsPerSession: 1000 })
    await store.importSession(large.file)
    const file = newFile()
    const controller = new AbortController()
    const work = store.exportSession('s', file, { signal: controller.signal })
    const reason = new Error('changed my mind')
    setTimeout(() => controller.abort(reason), 30)
    await assert.rejects(work, isAbortError(reason))
    assert.deepEqual(readdirSync(join(file, '..')), [])
  })

  it('that comes when all is done changes nothing, and is not listened to any more', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    const controller = new AbortController()
    const { signal } = controller
    let listeners = 0
    const counting = {
      get aborted() {
        return signal.aborted
      },
      addEventListener: (...args) => {
        listeners += 1
        signal.addEventListener(...args)
      },
      removeEventListener: (...args) => {
        listeners -= 1
        signal.removeEventListener(...args)
      },
    }
    const file = newFile()
    await store.exportSession('s', file, { signal: counting })
    await store.importSession(file, { signal: counting, as: 'other' })
    assert.equal(listeners, 0)
    controller.abort()
    assert.deepEqual(await store.listSessions(), ['other', 's'])
  })
})

describe('a process that is killed', () => {
  it('in the middle of an export leaves no file of that name', async () => {
    const file = newFile()
    await killNode(
      `const store = new CheckpointStore(${JSON.stringify(large.base)})
       await store.initialize()
       await store.exportSession('s', ${JSON.stringify(file)}, { onProgress: ({ done }) => console.log(done) })
       setInterval(() => {}, 1000)`,
      { afterLines: 2 },
    )
    assert.equal(existsSync(file), false)
    const store = await openStore(large.base)
    await store.exportSession('s', file)
    await (await openStore('memory:')).importSession(file)
  })

  for (const kind of ['files', 'sqlite']) {
    it(`in the middle of an import into ${kind} leaves nothing to be seen, and it works the next time`, async () => {
      const place = places[kind]()
      await killNode(
        `const store = new CheckpointStore(${JSON.stringify(place)})
         await store.initialize()
         const onProgress = ({ phase, done, total }) => phase === 'import' && done < total && console.log(done)
         await store.importSession(${JSON.stringify(large.file)}, { onProgress })
         setInterval(() => {}, 1000)`,
        { afterLines: 1 },
      )
      const store = await openStore(place)
      assert.deepEqual(await store.listSessions(), [])
      assert.deepEqual(await store.sessionsInfo(), [])
      await store.importSession(large.file)
      assert.equal((await store.verifySession('s')).whole, true)
    })
  }
})

describe('memory', () => {
  for (const kind of ['files', 'sqlite']) {
    it(`is not what a session takes up, going out of and into ${kind}`, async () => {
      const fill = `
        const store = new CheckpointStore(process.argv[1], { durability: 'relaxed', maxCheckpointsPerSession: Infinity })
        await store.initialize()
        const session = { id: 's', name: 'n', status: 'active', taskTree: {}, checkpointIds: [] }
        for (let count = 0; count < 200; count += 1) {
          const text = String(count % 10).repeat(1_500_000)
          await store.createCheckpoint(session, {}, { text }, { trigger: 'auto', includeContext: true })
        }`
      const carry = `
        const [from, file, to] = process.argv.slice(1)
        const stores = [from, to].map((place) => new CheckpointStore(place, { durability: 'relaxed' }))
        for (const store of stores) await store.initialize()
        let peak = 0
        const sampling = setInterval(() => { peak = Math.max(peak, process.memoryUsage.rss()) }, 5)
        const { bytes } = await stores[0].exportSession('s', file)
        const imported = await stores[1].importSession(file)
        clearInterval(sampling)
        console.log(JSON.stringify({ bytes, imported: imported.bytes, peak }))`
      const [from, to] = [places[kind](), places[kind]()]
      assert.equal((await runNode(fill, { args: [from] })).code, 0)
      const { stdout, stderr } = await runNode(carry, { args: [from, newFile(), to] })
      assert.equal(stderr, '')
      const { bytes, imported, peak } = JSON.parse(stdout)
      assert.ok(bytes > 300e6 && imported === bytes, `${bytes} bytes`)
      assert.ok(peak < 200e6, `${peak} bytes at the most`)
    })
  }
})
