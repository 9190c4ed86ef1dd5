import assert from 'node:assert/strict'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

import { ALL_METHODS } from '../support/methods.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { CheckpointStore, OPTIONS, openStore, scratchDirectory } from '../support/stores.mjs'

describe('initialize', () => {
  it('the constructor touches nothing and knows its base directory', () => {
    const base = join(scratchDirectory(), 'a', 'b')
    const store = new CheckpointStore(base)
    assert.equal(store.getBaseDir(), base)
    assert.equal(existsSync(base), false)
  })

  it('the default is the directory of the original store; ~ and relative paths are resolved at once', () => {
    assert.equal(new CheckpointStore().getBaseDir(), join(homedir(), '.meshseeks', 'sessions'))
    assert.equal(new CheckpointStore('~/x/../y').getBaseDir(), join(homedir(), 'y'))
    assert.equal(new CheckpointStore('some/where').getBaseDir(), resolve('some/where'))
    assert.equal(new CheckpointStore('memory:').getBaseDir(), 'memory:')
  })

  it('creates the base directory and may be called again', async () => {
    const base = join(scratchDirectory(), 'a', 'b')
    const store = new CheckpointStore(base)
    assert.equal(await store.initialize(), undefined)
    await Promise.all([store.initialize(), store.initialize()])
    assert.ok(statSync(base).isDirectory())
    assert.deepEqual(await store.listSessions(), [])
  })

  it('every method but getBaseDir rejects before it', async () => {
    const store = new CheckpointStore(scratchDirectory())
    for (const [name, args] of Object.entries(ALL_METHODS)) {
      await assert.rejects(store[name](...args), {
        name: 'Error',
        message: 'CheckpointStore not initialized. Call initialize() first.',
        code: 'WAYMARK_NOT_INITIALIZED',
      })
    }
  })

  it('creates no location that must exist', async () => {
    const base = join(scratchDirectory(), 'a')
    const isMissing = (location) => ({ code: 'WAYMARK_NOT_FOUND', message: `There is no store at ${location}` })
    const files = { [base]: base, [`sqlite:${base}.db`]: `${base}.db` }
    for (const [location, file] of Object.entries(files)) {
      const store = new CheckpointStore(location, { mustExist: true })
      await assert.rejects(store.initialize(), isMissing(location))
      assert.equal(existsSync(file), false)
      await (await openStore(location)).close()
      await store.initialize()
      assert.deepEqual(await store.listSessions(), [])
      await store.close()
    }
    await new CheckpointStore('memory:', { mustExist: true }).initialize()
    await assert.rejects(async () => new CheckpointStore(base, { mustExist: 1 }), {
      code: 'WAYMARK_INVALID_ARGUMENT',
      message: 'options.mustExist must be true or false; got 1',
    })
  })

  it('names a base directory that cannot be created', async () => {
    const base = join(scratchDirectory(), 'file')
    const blocked = join(base, 'below')
    writeFileSync(base, '')
    await assert.rejects(new CheckpointStore(blocked).initialize(), (error) => {
      assert.equal(error.code, 'WAYMARK_IO')
      assert.ok(error.message.includes(base), error.message)
      assert.equal(error.cause.code, 'ENOTDIR')
      return true
    })
  })
})

describe('close', () => {
  it('waits for pending calls, rejects later ones, and initialize opens again', async () => {
    const store = await openStore()
    const underWay = Array.from({ length: 20 }, () => store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS))
    let settled = 0
    for (const call of underWay) call.then(() => (settled += 1))
    await store.close()
    assert.equal(settled, 20)
    for (const [name, args] of Object.entries(ALL_METHODS)) {
      await assert.rejects(store[name](...args), { code: 'WAYMARK_CLOSED' })
    }
    await store.close()
    await store.initialize()
    assert.equal((await store.listCheckpoints('s')).total, 20)
  })

  it('takes effect even if it is called while the store opens', async () => {
    const store = new CheckpointStore(scratchDirectory())
    await Promise.allSettled([store.initialize(), store.close()])
    await assert.rejects(store.listSessions(), { code: 'WAYMARK_CLOSED' })
  })

  it('runs at the end of an await using block', async () => {
    const store = await openStore()
    const saved = store.saveSession(makeSession('s'))
    await store[Symbol.asyncDispose]()
    assert.equal((await saved).success, true)
    await assert.rejects(store.listSessions(), { code: 'WAYMARK_CLOSED' })
  })
})

describe('a process with a store', () => {
  it('ends by itself with the store open', async () => {
    const { code, stdout } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(scratchDirectory())})
      await store.initialize()
      await store.saveTaskResult('s', 't', 1)
      console.log('done')
    `)
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'done\n' })
  })

  it('waits for calls that are not awaited', async () => {
    const base = scratchDirectory()
    await runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      store.saveTaskResult('s', 't', { kept: true })
    `)
    assert.deepEqual(await (await openStore(base)).loadTaskResult('s', 't'), { kept: true })
  })

  it('may exit during many writes: what is stored is whole', async () => {
    const base = scratchDirectory()
    const { code } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      const big = 'x'.repeat(100_000)
      await store.saveTaskResult('s', 'first', { big })
      const calls = Array.from({ length: 200 }, (_, n) => store.saveTaskResult('s', 'task-' + n % 20, { n, big }))
      Promise.any(calls).then(() => process.exit(7))
    `)
    assert.equal(code, 7)
    const store = await openStore(base)
    assert.equal((await store.loadTaskResult('s', 'first')).big.length, 100_000)
    for (let n = 0; n < 20; n += 1) {
      const result = await store.loadTaskResult('s', `task-${n}`)
      assert.ok(result === null || result.big.length === 100_000)
    }
  })
})

describe('the constructor', () => {
  it('rejects a location that looks like a mistyped URL and does not show it', () => {
    const mistyped = [
      '"postgres://me:s3cret@host/db"',
      "'postgres://me:s3cret@host/db'",
      'postgres//me:s3cret@host/db',
      'postgresql//me:s3cret@host/db',
      'postgres:/me:s3cret@host/db',
      'postgre://me:s3cret@host/db',
      'POSTGRES://me:s3cret@host/db',
      ' postgres://me:s3cret@host/db',
      'postgres://me:s3cret@host/db\n',
      'mysql://me:s3cret@host/db',
      'http://s3cret.example/db',
      'sqlite//s3cret.db',
      'SQLITE:s3cret.db',
      'me:s3cret@host/db',
      resolve('postgres://me:s3cret@host/db'),
    ]
    for (const location of mistyped) {
      assert.throws(
        () => new CheckpointStore(location),
        ({ code, message }) => {
          assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', location)
          assert.match(message, /^baseDir .*Write /, location)
          assert.doesNotMatch(message, /cret/, location)
          return true
        },
      )
    }
  })

  it('throws an error with a code for invalid options', () => {
    const directory = scratchDirectory()
    const bad = [
      [[5], /^baseDir must be a string; got 5$/],
      [[null], /^baseDir must be a string; got null$/],
      [[''], /^baseDir is empty, or contains a NUL character\. Write a directory, /],
      [['memory:mine'], /^baseDir "memory:…": a store in memory has no name, write "memory:"$/],
      [['sqlite:'], /^baseDir "sqlite:…": write "sqlite:" and the path of a file, such as "sqlite:.\/store.db"$/],
      [['sqlite::memory:'], /^baseDir "sqlite:…": a store that lives and dies with the process is "memory:"$/],
      [['sqlite:///x.db'], /this is not a URL/],
      [
        ['redis://localhost/x'],
        /^baseDir looks like a URL that is mistyped, or that this version has no store for\. Write /,
      ],
      [
        ['postgres://user:secret/x'],
        /^baseDir is not a valid URL of a PostgreSQL database: the port is not a number(?!.*secret)/,
      ],
      [[directory, 0], /^maxCheckpointsPerSession must be a whole number of at least 1, or Infinity; got 0$/],
      [[directory, -3], /got -3$/],
      [[directory, 1.5], /got 1\.5$/],
      [[directory, NaN], /got NaN$/],
      [[directory, '5'], /^options must be an object; got "5"$/],
      [[directory, null], /^options must be an object; got null$/],
      [[directory, { maxCheckpointsPerSession: 0 }], /^options\.maxCheckpointsPerSession must be /],
      [[directory, { maxReadBytes: -1 }], /^options\.maxReadBytes must be /],
      [[directory, { timeoutMs: 0 }], /^options\.timeoutMs must be a whole number from 1 to /],
      [[directory, { maxConnections: Infinity }], /^options\.maxConnections must be a whole number from 1 to /],
      [[directory, { durability: 'best' }], /^options\.durability must be "full" or "relaxed"; got "best"$/],
    ]
    for (const [args, message] of bad) {
      assert.throws(() => new CheckpointStore(...args), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
  })
})
