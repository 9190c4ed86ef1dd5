// Progress, abort, kills and memory use of exports and imports.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { killNode, runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { backends, durableBackends, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

/** Enough items for several progress reports. */
const ITEMS = 100

const newFile = () => join(scratchDirectory(), 'session.zst')

/** A session that takes some time to export, in files, and its export file. */
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
    for (let count = 0; count < ${ITEMS}; count += 1) {
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

onEveryBackend('importSession onProgress', (open) => {
  it('reports in order, at intervals, and at the end', async () => {
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
      const previous = told[index - 1] ?? { phase: 'check', done: 0, bytes: 0 }
      const isNext = order.indexOf(phase) > order.indexOf(previous.phase)
      assert.ok(isNext || (phase === previous.phase && done >= previous.done && bytes >= previous.bytes))
      assert.ok(done <= total)
    }
    const last = told.at(-1)
    assert.deepEqual([last.phase, last.done, last.total, last.bytes], ['import', ITEMS, ITEMS, last.totalBytes])
    const count = told.length
    await new Promise((resolve) => setTimeout(resolve, 120))
    assert.equal(told.length, count)
  })

  it('ends the import with what it throws', async () => {
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

describe('exportSession onProgress', () => {
  it('reports at intervals and at the end', async () => {
    const store = await openStore(large.base)
    const told = []
    const { bytes } = await store.exportSession('s', newFile(), { onProgress: (progress) => told.push(progress) })
    assert.deepEqual(told.at(-1), { phase: 'export', done: ITEMS, total: ITEMS, bytes })
    assert.ok(told.length > 2)
  })

  it('ends the export with what it throws, without a file', async () => {
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

  it('works if the package was evaluated twice, as test runners do', async () => {
    const require = createRequire(import.meta.url)
    for (const path of Object.keys(require.cache)) {
      if (/[\\/](index|controlled)\.js$/.test(path)) delete require.cache[path]
    }
    const { CheckpointStore } = require('../../index.js')
    const store = new CheckpointStore(large.base)
    await store.initialize()
    const told = []
    await store.exportSession('s', newFile(), { onProgress: ({ done }) => told.push(done) })
    assert.equal(told.at(-1), ITEMS)
  })

  it('does not keep the process alive', async () => {
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

onEveryBackend('the signal of exportSession and importSession', (open) => {
  const isAbortError = (reason) => (error) => {
    assert.ok(error instanceof Error)
    assert.deepEqual([error.name, error.code, error.message], ['AbortError', 'ABORT_ERR', 'The operation was aborted'])
    assert.equal(error.cause, reason)
    return true
  }

  it('that is already aborted keeps everything unchanged', async () => {
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

  it('aborted during an import leaves nothing, and a second import works', async () => {
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
    assert.equal((await store.listCheckpointInfo('s')).total, ITEMS)
  })

  it('aborted during an export leaves no file', async () => {
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

  it('aborted after the end has no effect and has no listeners left', async () => {
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

describe('a killed process', () => {
  it('leaves no file when it is killed during an export', async () => {
    const file = newFile()
    await killNode(
      `const store = new CheckpointStore(${JSON.stringify(large.base)})
       await store.initialize()
       await store.exportSession('s', ${JSON.stringify(file)}, { onProgress: ({ done }) => console.log(done) })`,
      { afterLines: 2 },
    )
    assert.equal(existsSync(file), false)
    const store = await openStore(large.base)
    await store.exportSession('s', file)
    await (await openStore('memory:')).importSession(file)
  })

  for (const kind of durableBackends) {
    it(`leaves no session when it is killed during an import into ${kind}, and a second import works`, async () => {
      const location = backends[kind]()
      await killNode(
        `const store = new CheckpointStore(${JSON.stringify(location)})
         await store.initialize()
         const onProgress = ({ phase, done, total }) => phase === 'import' && done < total && console.log(done)
         await store.importSession(${JSON.stringify(large.file)}, { onProgress })`,
        { afterLines: 1 },
      )
      const store = await openStore(location)
      assert.deepEqual(await store.listSessions(), [])
      assert.deepEqual(await store.sessionsInfo(), [])
      await store.importSession(large.file)
      assert.equal((await store.verifySession('s')).whole, true)
    })
  }
})

describe('memory use', () => {
  for (const kind of durableBackends) {
    it(`of an export and an import stays below the size of the session, ${kind}`, async () => {
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
        const stores = [from, to].map((location) => new CheckpointStore(location, { durability: 'relaxed' }))
        for (const store of stores) await store.initialize()
        let peak = 0
        const sampling = setInterval(() => { peak = Math.max(peak, process.memoryUsage.rss()) }, 5)
        const { bytes } = await stores[0].exportSession('s', file)
        const imported = await stores[1].importSession(file)
        clearInterval(sampling)
        console.log(JSON.stringify({ bytes, imported: imported.bytes, peak }))`
      const [from, to] = [backends[kind](), backends[kind]()]
      assert.equal((await runNode(fill, { args: [from] })).code, 0)
      const { stdout, stderr } = await runNode(carry, { args: [from, newFile(), to] })
      assert.equal(stderr, '')
      const { bytes, imported, peak } = JSON.parse(stdout)
      assert.ok(bytes > 300e6 && imported === bytes, `${bytes} bytes`)
      assert.ok(peak < 200e6, `${peak} bytes at the most`)
    })
  }
})
