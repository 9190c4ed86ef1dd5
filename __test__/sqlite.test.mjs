import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

import { killNode, runNode } from './support/processes.mjs'
import { makeSession } from './support/sessions.mjs'
import { CheckpointStore, OPTIONS, checkpointOf, openStore, scratchDirectory } from './support/stores.mjs'

const isWindows = process.platform === 'win32'

const newFile = () => join(scratchDirectory(), 'below', 'store.db')

describe('a database', () => {
  it('is named by its file, which is resolved at once and not touched by the constructor', () => {
    const file = newFile()
    const store = new CheckpointStore(`sqlite:${file}`)
    assert.equal(store.getBaseDir(), `sqlite:${file}`)
    assert.equal(existsSync(join(file, '..')), false)
    assert.equal(new CheckpointStore('sqlite:./a/../b.db').getBaseDir(), `sqlite:${resolve('b.db')}`)
    assert.equal(new CheckpointStore('sqlite:~/b.db').getBaseDir(), `sqlite:${join(homedir(), 'b.db')}`)
  })

  it('gives everything in it a name', async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    assert.equal((await store.saveSession(makeSession('s'))).path, `sqlite:${file}#s/session.json`)
    assert.equal((await store.saveTaskResult('s', 't', 1)).path, `sqlite:${file}#s/results/t.json`)
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
    assert.equal(path, `sqlite:${file}#s/checkpoints/${checkpointId}.json`)
  })

  it('is for its owner only', { skip: isWindows && 'Windows has no modes' }, async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    await checkpointOf(store, makeSession('s'))
    const mode = (path) => (statSync(path).mode & 0o777).toString(8)
    assert.deepEqual([file, `${file}-wal`, `${file}-shm`].map(mode), ['600', '600', '600'])
    assert.equal(mode(join(file, '..')), '700')
  })

  it('that is none, or not ours, is refused', async () => {
    const file = newFile()
    mkdirSync(join(file, '..'))
    writeFileSync(file, 'a text that is longer than the header of a database would be\n'.repeat(10))
    const store = new CheckpointStore(`sqlite:${file}`)
    await assert.rejects(store.initialize(), (error) => {
      assert.equal(error.code, 'WAYMARK_CORRUPT')
      assert.equal(error.message, `${file} is damaged: file is not a database`)
      assert.equal(error.cause.code, 'SQLITE_NOTADB')
      return true
    })
    await assert.rejects(store.listSessions(), { code: 'WAYMARK_NOT_INITIALIZED' })
    assert.deepEqual(readdirSync(join(file, '..')), ['store.db'])
  })

  it('that is removed under an open store is not written to', { skip: isWindows && 'it is locked' }, async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    await store.saveSession(makeSession('s'))
    rmSync(file)
    const saved = await store.saveSession(makeSession('s'))
    assert.deepEqual([saved.success, saved.code, saved.cause.code], [false, 'WAYMARK_IO', 'SQLITE_READONLY'])
    assert.match(saved.error, /Call initialize\(\)/)
    await store.initialize()
    assert.deepEqual(await store.listSessions(), [])
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
  })

  it('shrinks when a session is deleted', async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    await store.saveSession(makeSession('small'))
    const filler = 'x'.repeat(300_000)
    for (let n = 0; n < 10; n += 1) await checkpointOf(store, makeSession('large'), OPTIONS, {}, { filler })
    const size = () => statSync(file).size + statSync(`${file}-wal`).size
    assert.ok(size() > 3_000_000)
    assert.deepEqual(await store.deleteSession('large'), { success: true })
    assert.ok(size() < 200_000, `${size()} bytes are left`)
    assert.deepEqual(await store.listSessions(), ['small'])
  })

  it('with a damaged checkpoint reports it, and recovers from the one before', async () => {
    const file = newFile()
    const made = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)})
      await store.initialize()
      const session = ${JSON.stringify(makeSession('s'))}
      for (const name of ['first', 'second']) {
        const context = { name, filler: \`\${name} \`.repeat(5000) }
        const { checkpointId } = await store.createCheckpoint(session, {}, context, { trigger: 'auto', includeContext: true })
        console.log(checkpointId)
      }
      // Deleting moves everything out of the log.
      await store.saveSession({ ...session, id: 'other' })
      await store.deleteSession('other')
    `)
    const [first, second] = made.stdout.split('\n')
    const bytes = readFileSync(file)
    // In the middle of a page: the pages themselves stay in order.
    const at = bytes.indexOf('second second second second') + 9000
    bytes.write('damaged!', at - (at % 4096) + 2048)
    writeFileSync(file, bytes)

    const store = await openStore(`sqlite:${file}`)
    const { checkpoints, damaged } = await store.listCheckpoints('s')
    assert.deepEqual([checkpoints.map(({ id }) => id), damaged.map(({ id }) => id)], [[first], [second]])
    assert.match(damaged[0].path, /#s\/checkpoints\//)
    const recovered = await store.recoverSession('s', { quarantine: true })
    assert.deepEqual([recovered.success, recovered.checkpointId], [true, first])
    assert.match(recovered.passedOver[0].movedTo, /^sqlite:.*#s\/damaged\//)
    assert.equal((await store.listCheckpoints('s')).total, 1)
    assert.equal((await store.loadSession('s')).lastCheckpointId, first)
  })
})

describe('processes on one database', () => {
  it('may be killed in the middle of their writes: what was acknowledged is there, whole', async () => {
    const filler = 'x'.repeat(20_000)
    const script = (file) => `
      import { writeSync } from 'node:fs'
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)}, 1000)
      await store.initialize()
      const session = ${JSON.stringify(makeSession('s'))}
      const context = { filler: ${JSON.stringify(filler)} }
      const lane = async (name) => {
        for (let n = 0; ; n += 1) {
          const made = await store.createCheckpoint(session, {}, context, { trigger: 'auto', includeContext: true })
          const saved = await store.saveTaskResult('s', name, { n, ...context })
          const restored = await store.restoreCheckpoint({ sessionId: 's', checkpointId: made.checkpointId })
          for (const { success, error } of [made, saved, restored]) if (!success) throw new Error(error)
          writeSync(1, [made.checkpointId, name, n].join(' ') + '\\n')
        }
      }
      for (const name of ['a', 'b', 'c', 'd', 'e']) lane(name)
    `
    for (const afterLines of [5, 20, 60, 150]) {
      const file = newFile()
      const lines = (await killNode(script(file), { afterLines })).map((line) => line.split(' '))
      const store = await openStore(`sqlite:${file}`)
      const { checkpoints, damaged } = await store.listCheckpoints('s')
      assert.deepEqual(damaged, [])
      assert.ok(checkpoints.every(({ contextStore }) => contextStore.filler === filler))
      const stored = new Set(checkpoints.map(({ id }) => id))
      assert.deepEqual(
        lines.filter(([id]) => !stored.has(id)),
        [],
      )
      for (const [, name, n] of lines) {
        const result = await store.loadTaskResult('s', name)
        assert.ok(result.n >= Number(n) && result.filler === filler, `${name}: ${result.n} after ${n}`)
      }
      assert.equal((await store.verifySession('s')).whole, true)
    }
  })

  it('write one session at once: every call succeeds, and the limit holds', async () => {
    const file = newFile()
    const script = `
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)}, 10)
      await store.initialize()
      const session = ${JSON.stringify(makeSession('s'))}
      for (let n = 0; n < 15; n += 1) {
        const results = await Promise.all([
          store.createCheckpoint(session, {}, {}, { trigger: 'auto', compress: n % 2 === 0, includeContext: false }),
          store.saveSession(session),
          store.saveTaskTree('s', session.taskTree),
          store.saveTaskResult('s', 't' + n, n),
        ])
        for (const result of results) if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    `
    const runs = await Promise.all(Array.from({ length: 4 }, () => runNode(script)))
    for (const { code, stdout, stderr } of runs)
      assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' })
    const store = await openStore(`sqlite:${file}`)
    const { total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual([total, damaged], [10, []])
    assert.equal((await store.getSessionStorageStats('s')).resultCount, 15)
    assert.equal((await store.verifySession('s')).whole, true)
  })
})
