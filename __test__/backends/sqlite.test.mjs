import assert from 'node:assert/strict'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

import { killNode, runNode, writeFromProcesses } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { CheckpointStore, OPTIONS, checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

const isWindows = process.platform === 'win32'

const newFile = () => join(scratchDirectory(), 'below', 'store.db')

describe('a database file', () => {
  it('is resolved but not touched by the constructor', () => {
    const file = newFile()
    const store = new CheckpointStore(`sqlite:${file}`)
    assert.equal(store.getBaseDir(), `sqlite:${file}`)
    assert.equal(existsSync(join(file, '..')), false)
    assert.equal(new CheckpointStore('sqlite:./a/../b.db').getBaseDir(), `sqlite:${resolve('b.db')}`)
    assert.equal(new CheckpointStore('sqlite:~/b.db').getBaseDir(), `sqlite:${join(homedir(), 'b.db')}`)
  })

  it('gives every item a name', async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    assert.equal((await store.saveSession(makeSession('s'))).path, `sqlite:${file}#s/session.json`)
    assert.equal((await store.saveTaskResult('s', 't', 1)).path, `sqlite:${file}#s/results/t.json`)
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
    assert.equal(path, `sqlite:${file}#s/checkpoints/${checkpointId}.json`)
  })

  it('is accessible by its owner only', { skip: isWindows && 'Windows has no modes' }, async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    await checkpointOf(store, makeSession('s'))
    const mode = (path) => (statSync(path).mode & 0o777).toString(8)
    assert.deepEqual([file, `${file}-wal`, `${file}-shm`].map(mode), ['600', '600', '600'])
    assert.equal(mode(join(file, '..')), '700')
  })

  it('that is not a database, or of another program, is rejected', async () => {
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

  it('is not written to after it was removed under an open store', { skip: isWindows && 'it is locked' }, async () => {
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

  it('with a damaged checkpoint reports it and recovers from the one before', async () => {
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
    // Inside a page, so that the page structure stays valid.
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

describe('close (sqlite)', () => {
  const totalIn = async (file, options) => {
    const copy = newFile()
    mkdirSync(join(copy, '..'))
    copyFileSync(file, copy)
    const store = await openStore(`sqlite:${copy}`, options)
    const { total } = await store.listCheckpoints('s')
    await store.close()
    return total
  }

  for (const durability of ['full', 'relaxed']) {
    it(`leaves everything in one file that can be copied alone (${durability})`, async () => {
      const file = newFile()
      const store = await openStore(`sqlite:${file}`, { durability })
      for (let n = 0; n < 20; n += 1) await checkpointOf(store, makeSession('s'))
      await store.close()
      assert.equal(await totalIn(file), 20)
      assert.equal(statSync(`${file}-wal`).size, 0, 'nothing is left in the log')
    })
  }

  it(
    'releases every file descriptor',
    { skip: !existsSync('/proc/self/fd') && 'the system does not list them' },
    async () => {
      const file = newFile()
      const store = new CheckpointStore(`sqlite:${file}`)
      const open = () => readdirSync('/proc/self/fd').filter(isOfFile)
      const isOfFile = (descriptor) => {
        try {
          return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(file)
        } catch {
          return false // The descriptor that listed the directory is closed by now.
        }
      }
      const cycle = async () => {
        await store.initialize()
        await checkpointOf(store, makeSession('s'))
        await Promise.all(Array.from({ length: 8 }, () => store.listCheckpoints('s')))
        await store.close()
      }
      for (let n = 0; n < 3; n += 1) {
        await cycle()
        assert.deepEqual(open(), [])
      }
      await store.initialize()
      assert.notDeepEqual(open(), [])
      assert.equal((await store.listCheckpoints('s')).total, 3)
      await store.close()
    },
  )

  it('may be followed by initialize, awaited or not', async () => {
    const store = new CheckpointStore(`sqlite:${newFile()}`)
    await store.initialize()
    for (let n = 1; n <= 20; n += 1) {
      const written = checkpointOf(store, makeSession('s'))
      const closed = store.close()
      await assert.rejects(store.listSessions(), { code: 'WAYMARK_CLOSED' })
      await store.initialize()
      await Promise.all([written, closed])
      assert.equal((await store.listCheckpoints('s')).total, n)
    }
  })

  it(
    'rejects if the log cannot be moved into the database, and loses nothing',
    { skip: isWindows && 'it has no such limit' },
    async () => {
      const file = newFile()
      const large = { filler: 'x'.repeat(1_500_000) }
      const first = await openStore(`sqlite:${file}`)
      for (let n = 0; n < 4; n += 1) await checkpointOf(first, makeSession('s'), OPTIONS, {}, large)
      await first.close()
      // The log fits below the size limit; the database does not.
      const script = `
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)})
      await store.initialize()
      const session = ${JSON.stringify(makeSession('s'))}
      const context = { filler: 'y'.repeat(1_500_000) }
      const made = await store.createCheckpoint(session, {}, context, { trigger: 'auto', includeContext: true })
      const closed = await store.close().catch(({ code, message }) => ({ code, message }))
      const after = await store.listSessions().catch(({ code }) => code)
      console.log(JSON.stringify({ success: made.success, closed, after }))
    `
      const { stdout, stderr } = await runNode(script, { mostBytes: 4 << 20 })
      assert.equal(stderr, '')
      const { success, closed, after } = JSON.parse(stdout)
      assert.deepEqual([success, closed?.code, after], [true, 'WAYMARK_IO', 'WAYMARK_CLOSED'])
      assert.match(closed.message, /move the log/)
      const store = await openStore(`sqlite:${file}`)
      const { checkpoints } = await store.listCheckpoints('s')
      assert.deepEqual([checkpoints.length, checkpoints[0].contextStore.filler[0]], [5, 'y'])
      await store.close()
    },
  )

  it('affects no other store of the process and no other process', async () => {
    const file = newFile()
    const one = await openStore(`sqlite:${file}`)
    const two = await openStore(`sqlite:${file}`)
    const script = `
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)})
      await store.initialize()
      const session = ${JSON.stringify(makeSession('other'))}
      for (let n = 0; n < 30; n += 1) {
        const made = await store.createCheckpoint(session, {}, {}, { trigger: 'auto', includeContext: false })
        if (!made.success) console.log(made.error)
      }
      await store.close()
    `
    const process = runNode(script)
    for (let n = 1; n <= 15; n += 1) {
      await checkpointOf(one, makeSession('s'))
      await one.close()
      await checkpointOf(two, makeSession('s'))
      assert.equal((await two.listCheckpoints('s')).total, 2 * n)
      await one.initialize()
    }
    const { code, stdout, stderr } = await process
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' })
    await one.close()
    assert.equal((await two.listCheckpoints('other')).total, 30)
    assert.equal(await totalIn(file), 30)
    await two.close()
    assert.equal(statSync(`${file}-wal`).size, 0, 'nothing is left in the log')
  })
})

describe('several processes on one database', () => {
  it('may be killed during writes: everything acknowledged is stored whole', async () => {
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

  it('write one session at once within the limit', async () => {
    const file = newFile()
    await writeFromProcesses(`sqlite:${file}`)
    const store = await openStore(`sqlite:${file}`)
    const { total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual([total, damaged], [10, []])
    assert.equal((await store.getSessionStorageStats('s')).resultCount, 15)
    assert.equal((await store.verifySession('s')).whole, true)
  })
})

describe('a database whose locks the process has lost', { skip: isWindows && 'Windows keeps its locks' }, () => {
  /** Runs a program in another process that opens and closes the same database. */
  const childOn = async (file, body) => {
    const { code, stdout, stderr } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(`sqlite:${file}`)}, { maxCheckpointsPerSession: Infinity })
      await store.initialize()
      ${body}
      await store.close()
    `)
    assert.equal(code, 0, stderr)
    return stdout
  }

  it('keeps its log and content when another process closes it', async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`, { maxCheckpointsPerSession: Infinity })
    const made = [await checkpointOf(store, makeSession('s'))]
    // Closing any descriptor of a file releases all locks of the process on it.
    cpSync(join(file, '..'), join(scratchDirectory(), 'copy'), { recursive: true })
    await childOn(file, `await store.listCheckpointInfo('s')`)
    for (let number = 0; number < 5; number += 1) made.push(await checkpointOf(store, makeSession('s')))
    const total = await childOn(file, `console.log((await store.listCheckpointInfo('s')).total)`)
    assert.equal(Number(total), made.length)
    await store.close()
    const again = await openStore(`sqlite:${file}`)
    assert.equal((await again.listCheckpointInfo('s')).total, made.length)
  })

  it('acknowledges nothing after its log was removed', async () => {
    const file = newFile()
    const store = await openStore(`sqlite:${file}`)
    await checkpointOf(store, makeSession('s'))
    rmSync(`${file}-wal`)
    const { success, code, error } = await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)
    assert.deepEqual([success, code], [false, 'WAYMARK_IO'])
    assert.match(error, /its log, was removed or replaced/)
    await store.initialize()
    assert.ok((await store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)).success)
  })
})
