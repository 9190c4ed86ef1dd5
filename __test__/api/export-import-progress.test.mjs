// Exports and imports in progress: their progress, cancellation, crashes and memory.

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { killNode, runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { backends, durableBackends, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

/** Enough to interrupt the work in its middle. */
const ITEMS = 100

const newFile = () => join(scratchDirectory(), 'session.tar.zst')

/** A session that takes a while to export: in a directory, and exported. */
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

onEveryBackend('onProgress of importSession', (open) => {
  it('is called in the order of the phases, at most every 50 ms and once at the end', async () => {
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

  it('stops the import by an exception, with which the promise rejects', async () => {
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

describe('onProgress of exportSession', () => {
  it('is called several times and once at the end', async () => {
    const store = await openStore(large.base)
    const told = []
    const { bytes } = await store.exportSession('s', newFile(), { onProgress: (progress) => told.push(progress) })
    assert.deepEqual(told.at(-1), { phase: 'export', done: ITEMS, total: ITEMS, bytes })
    assert.ok(told.length > 2)
  })

  it('stops the export by whatever it throws, and no file is left', async () => {
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

  it('is called even if the package was evaluated twice, as test runners do', async () => {
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

  it('rejects at once if it was aborted before', async () => {
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

  it('stops an import in each phase, nothing is left, and the next import works', async () => {
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

  it('stops an export, and no file is left', async () => {
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

  it('has no effect after the end, and no listener is left', async () => {
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
  it('leaves no file with the name of its export', async () => {
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
    it(`leaves nothing visible of its import into ${kind}, and the next import works`, async () => {
      const place = backends[kind]()
      await killNode(
        `const store = new CheckpointStore(${JSON.stringify(place)})
         await store.initialize()
         const onProgress = ({ phase, done, total }) => phase === 'import' && done < total && console.log(done)
         await store.importSession(${JSON.stringify(large.file)}, { onProgress })`,
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

describe('the memory of exportSession and importSession', () => {
  for (const kind of durableBackends) {
    it(`does not grow with the session, with ${kind}`, async () => {
      const fill = `
        const store = new CheckpointStore(process.argv[1], { durability: 'relaxed', maxCheckpointsPerSession: Infinity })
        await store.initialize()
        const session = { id: 's', name: 'n', status: 'active', taskTree: {}, checkpointIds: [] }
        for (let count = 0; count < 200; count += 1) {
          const text = String(count % 10).repeat(1_500_000)
          await store.createCheckpoint(session, {}, { text }, { trigger: 'auto', includeContext: true })
        }`
      const transfer = `
        const [from, file, to] = process.argv.slice(1)
        const stores = [from, to].map((place) => new CheckpointStore(place, { durability: 'relaxed' }))
        for (const store of stores) await store.initialize()
        let peak = 0
        const sampling = setInterval(() => { peak = Math.max(peak, process.memoryUsage.rss()) }, 5)
        const { bytes } = await stores[0].exportSession('s', file)
        const imported = await stores[1].importSession(file)
        clearInterval(sampling)
        console.log(JSON.stringify({ bytes, imported: imported.bytes, peak }))`
      const [from, to] = [backends[kind](), backends[kind]()]
      assert.equal((await runNode(fill, { args: [from] })).code, 0)
      const { stdout, stderr } = await runNode(transfer, { args: [from, newFile(), to] })
      assert.equal(stderr, '')
      const { bytes, imported, peak } = JSON.parse(stdout)
      assert.ok(bytes > 300e6 && imported === bytes, `${bytes} bytes`)
      assert.ok(peak < 200e6, `${peak} bytes at the most`)
    })
  }
})
