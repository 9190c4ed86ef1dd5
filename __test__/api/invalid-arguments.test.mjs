import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, it } from 'node:test'

import { HOSTILE_IDS, NOT_STRINGS, UNSTORABLE, emptyStore } from '../support/hostile.mjs'
import { ALL_METHODS, REPORTING } from '../support/methods.mjs'
import { makeSession } from '../support/sessions.mjs'
import { CheckpointStore, OPTIONS, openStore, scratchDirectory } from '../support/stores.mjs'

/** Calls a method that must fail in the way that is its own; gives the error or the result. */
async function failureOf(store, name, args) {
  let call
  assert.doesNotThrow(() => (call = store[name](...args)), `${name} must not throw synchronously`)
  if (REPORTING.has(name)) {
    const result = await call
    assert.equal(result.success, false, `${name} must not succeed`)
    assert.equal(typeof result.error, 'string')
    return { message: result.error, code: result.code }
  }
  return call.then(
    () => assert.fail(`${name} must reject`),
    (error) => {
      assert.ok(error instanceof Error)
      return error
    },
  )
}

function withArgument(name, index, value) {
  return ALL_METHODS[name].with?.(index, value) ?? Object.assign([...ALL_METHODS[name]], { [index]: value })
}

const ID_ARGUMENTS = Object.entries(ALL_METHODS).flatMap(([name, args]) =>
  args.flatMap((arg, index) =>
    ['s', 't', 'cp-1'].includes(arg) && !(name === 'saveTaskResult' && index === 2) ? [[name, index]] : [],
  ),
)

describe('ids', () => {
  for (const [name, index] of ID_ARGUMENTS) {
    it(`${name} refuses what is no string as argument ${index + 1}`, async () => {
      const { store, isUntouched } = await emptyStore()
      for (const [value, shown] of NOT_STRINGS) {
        const { message, code } = await failureOf(store, name, withArgument(name, index, value))
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
        assert.match(message, /^(sessionId|taskId|checkpointId) must be a string; got /)
        assert.ok(message.endsWith(shown), message)
      }
      isUntouched()
    })

    it(`${name} refuses what is no file name as argument ${index + 1}`, async () => {
      const { store, isUntouched } = await emptyStore()
      for (const value of HOSTILE_IDS) {
        const { message, code } = await failureOf(store, name, withArgument(name, index, value))
        assert.equal(code, 'WAYMARK_INVALID_ID', `${JSON.stringify(value)}: ${message}`)
        assert.match(message, /^Invalid (session|task|checkpoint) id "/)
      }
      isUntouched()
    })
  }

  it('the id inside a session is checked the same way', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const name of ['saveSession', 'createCheckpoint']) {
      for (const id of HOSTILE_IDS) {
        const { code } = await failureOf(store, name, withArgument(name, 0, makeSession(id)))
        assert.equal(code, 'WAYMARK_INVALID_ID', JSON.stringify(id))
      }
      for (const [id, shown] of NOT_STRINGS) {
        const { message } = await failureOf(store, name, withArgument(name, 0, { ...makeSession(), id }))
        assert.equal(message, `session.id must be a string; got ${shown}`)
      }
    }
    isUntouched()
  })

  it('restoreCheckpoint refuses every bad form of naming a checkpoint', async () => {
    const { store, isUntouched } = await emptyStore()
    const bad = [
      [[{ checkpointId: '../x/y' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/../cp' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: '/cp' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 'cp', sessionId: '..' }], 'WAYMARK_INVALID_ID'],
      [[{ checkpointId: 's/cp', sessionId: 'other' }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', sessionId: 5 }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{}], 'WAYMARK_INVALID_ARGUMENT'],
      [['s'], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 7], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 'cp', 'options'], 'WAYMARK_INVALID_ARGUMENT'],
      [['s', 'cp', { validateChecksum: 'yes' }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', resetFailedTasks: 1 }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', resetInProgressTasks: null }], 'WAYMARK_INVALID_ARGUMENT'],
      [[{ checkpointId: 'cp', includeState: {} }], 'WAYMARK_INVALID_ARGUMENT'],
      ...NOT_STRINGS.filter(([value]) => value === null || typeof value !== 'object').map(([value]) => [
        [value],
        'WAYMARK_INVALID_ARGUMENT',
      ]),
    ]
    for (const [args, code] of bad) {
      const result = await store.restoreCheckpoint(...args)
      assert.equal(result.success, false)
      assert.equal(result.code, code, result.error)
      assert.deepEqual([result.restoredTasks, result.restoredAgents, result.warnings], [0, 0, []])
    }
    isUntouched()
  })
})

describe('shapes', () => {
  it('a session must be an object', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const [value, shown] of [
      ...NOT_STRINGS.filter(([v]) => v === null || typeof v !== 'object'),
      [[], 'an array'],
      ['s', '"s"'],
    ]) {
      for (const name of ['saveSession', 'createCheckpoint']) {
        const { message, code } = await failureOf(store, name, withArgument(name, 0, value))
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
        assert.equal(message, `session must be an object; got ${shown}`)
      }
    }
    isUntouched()
  })

  it('trees, agent states and context must be Maps or objects', async () => {
    const { store, isUntouched } = await emptyStore()
    const cases = [
      ['taskTree', (value) => store.saveTaskTree('s', value)],
      ['session.taskTree', (taskTree) => store.createCheckpoint({ ...makeSession('s'), taskTree }, {}, {}, OPTIONS)],
      ['agentStates', (value) => store.createCheckpoint(makeSession('s'), value, {}, OPTIONS)],
      ['contextStore', (value) => store.createCheckpoint(makeSession('s'), {}, value, OPTIONS)],
    ]
    for (const [name, call] of cases) {
      for (const value of [null, 5, 'tree', true, [], () => {}, new Set()]) {
        const result = await call(value)
        assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT', `${name}: ${String(value)}`)
        assert.ok(result.error.startsWith(`${name} must be a Map or an object; got `), result.error)
      }
    }
    assert.equal((await store.saveTaskTree('s')).code, 'WAYMARK_INVALID_ARGUMENT')
    isUntouched()
  })

  it('a checkpoint needs the list of those before it', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const checkpointIds of [undefined, null, 'cp', {}, new Set()]) {
      const result = await store.createCheckpoint({ ...makeSession('s'), checkpointIds }, {}, {}, OPTIONS)
      assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT')
      assert.match(result.error, /^session\.checkpointIds must be an array; got /)
    }
    isUntouched()
  })

  it('checkpoint options are checked one by one', async () => {
    const { store, isUntouched } = await emptyStore()
    const bad = [
      [undefined, /^options must be an object; got undefined\. Call createCheckpoint\(session, agentStates, /],
      [null, /^options must be an object; got null$/],
      ['auto', /^options must be an object; got "auto"$/],
      [[], /^options must be an object; got an array$/],
      [{}, /^options\.trigger must be one of .*; got undefined$/],
      [{ trigger: 'whim' }, /^options\.trigger must be one of .*; got "whim"$/],
      [{ trigger: 'auto', description: 5 }, /^options\.description must be a string; got 5$/],
      [{ trigger: 'auto', includeContext: 'yes' }, /^options\.includeContext must be true or false; got "yes"$/],
      [{ trigger: 'auto', compress: 1 }, /^options\.compress must be true or false; got 1$/],
      [{ trigger: 'auto', metadata: 'x' }, /^options\.metadata must be an object; got "x"$/],
    ]
    for (const [options, message] of bad) {
      const long = await store.createCheckpoint(makeSession('s'), {}, {}, options)
      const short = await store.createCheckpoint(makeSession('s'), options)
      const results = options === undefined ? [short] : [long, short]
      for (const result of results) {
        assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT')
        assert.match(result.error, message)
      }
    }
    isUntouched()
  })

  it('pages are counted in whole numbers', async () => {
    const { store } = await emptyStore()
    for (const value of [-1, 1.5, NaN, -Infinity, '1', {}, true]) {
      await assert.rejects(store.listCheckpoints('s', value), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^limit must be /,
      })
      await assert.rejects(store.listCheckpoints('s', 1, value), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^offset must be /,
      })
    }
    assert.equal((await store.listCheckpoints('s', null, null)).total, 0)
  })

  it('the constructor refuses a location that looks like a mistyped URL, and shows no part of it', () => {
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

  it('the constructor throws, with a code, for what can never work', () => {
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
        /^baseDir is no URL of a PostgreSQL database: the port is not a number(?!.*secret)/,
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

describe('values that JSON cannot hold', () => {
  for (const [kind, value] of Object.entries(UNSTORABLE)) {
    it(`${kind} is reported the same way by every method, and nothing is written`, async () => {
      const { store, isUntouched } = await emptyStore()
      const results = [
        await store.saveTaskResult('s', 't', value),
        await store.saveSession({ ...makeSession('s'), metadata: value }),
        await store.saveTaskTree('s', { task: value }),
        await store.createCheckpoint({ ...makeSession('s'), metadata: value }, {}, {}, OPTIONS),
        await store.createCheckpoint({ ...makeSession('s'), taskTree: { task: value } }, {}, {}, OPTIONS),
        await store.createCheckpoint(makeSession('s'), { agent: value }, {}, OPTIONS),
        await store.createCheckpoint(makeSession('s'), {}, { value }, OPTIONS),
        await store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, metadata: value }),
      ]
      for (const result of results) {
        assert.equal(result.success, false)
        assert.equal(result.code, 'WAYMARK_NOT_SERIALIZABLE', result.error)
        assert.match(result.error, /cannot be stored as JSON: ./)
      }
      isUntouched()
    })
  }

  it('a Map that calls itself an object is still a Map, and a proxied session still a session', async () => {
    class Odd extends Map {
      get [Symbol.toStringTag]() {
        return 'Object'
      }
    }
    const deep = (object) =>
      new Proxy(object, {
        get(target, key, receiver) {
          const value = Reflect.get(target, key, receiver)
          return value && typeof value === 'object' ? deep(value) : value
        },
      })
    const store = await openStore('memory:')
    await store.saveTaskTree('s', new Odd([['a', 1]]))
    assert.deepEqual(await store.loadTaskTree('s'), { a: 1 })
    const result = await store.createCheckpoint(deep(makeSession('s')), {}, {}, OPTIONS)
    assert.equal(result.success, true, result.error)
    const proxiedMap = await store.saveTaskTree('s', new Proxy(new Map([['b', 1]]), {}))
    assert.equal(proxiedMap.code, 'WAYMARK_NOT_SERIALIZABLE', 'refused aloud, not stored as {}')
  })

  it('what no engine could read back is refused, and the old stays', async () => {
    const { store } = await emptyStore()
    let deep = Array.from({ length: 100_000 }, () => 0)
    for (let depth = 0; depth < 3000; depth += 1) deep = [deep]
    await store.saveTaskResult('s', 't', 'old')
    const result = await store.saveTaskResult('s', 't', deep)
    assert.equal(result.code, 'WAYMARK_TOO_LARGE', result.error)
    assert.equal(await store.loadTaskResult('s', 't'), 'old')
    await store.saveTaskTree('s', { kept: true })
    const session = makeSession('s', { taskTree: { deep } })
    const made = await store.createCheckpoint(session, {}, {}, { ...OPTIONS, compress: true })
    assert.equal(made.success, true, made.error)
    assert.equal((await store.restoreCheckpoint({ checkpointId: made.checkpointId })).code, 'WAYMARK_TOO_LARGE')
    assert.deepEqual(await store.loadTaskTree('s'), { kept: true })
  })

  it('undefined, functions and symbols are no task results', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const [value, shown] of [
      [undefined, 'undefined'],
      [() => {}, 'a function'],
      [Symbol('x'), 'a symbol'],
      [{ toJSON: () => undefined }, 'an object'],
    ]) {
      const result = await store.saveTaskResult('s', 't', value)
      assert.equal(result.code, 'WAYMARK_NOT_SERIALIZABLE')
      assert.equal(result.error, `result cannot be stored as JSON: JSON has no way to write ${shown}`)
    }
    isUntouched()
  })

  it('a part of a checkpoint that turns itself into something else is refused by name', async () => {
    const { store, isUntouched } = await emptyStore()
    const text = { toJSON: () => 'just text' }
    const gone = { toJSON: () => undefined }
    for (const agents of [text, gone]) {
      const result = await store.createCheckpoint(makeSession('s'), agents, {}, OPTIONS)
      assert.equal(result.code, 'WAYMARK_NOT_SERIALIZABLE')
      assert.match(result.error, /^agentStates must become a JSON object; its toJSON\(\) made /)
    }
    isUntouched()
  })
})
