import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { INVALID_IDS, NOT_STRINGS, UNSTORABLE, emptyStore } from '../support/invalid-values.mjs'
import { ALL_METHODS, REPORTING } from '../support/methods.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, openStore } from '../support/stores.mjs'

/** Calls a method that must fail by its own convention; returns the error or the failed result. */
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
    it(`${name} rejects a value that is not a string as argument ${index + 1}`, async () => {
      const { store, isUntouched } = await emptyStore()
      for (const [value, shown] of NOT_STRINGS) {
        const { message, code } = await failureOf(store, name, withArgument(name, index, value))
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT')
        assert.match(message, /^(sessionId|taskId|checkpointId) must be a string; got /)
        assert.ok(message.endsWith(shown), message)
      }
      isUntouched()
    })

    it(`${name} rejects a value that is not a file name as argument ${index + 1}`, async () => {
      const { store, isUntouched } = await emptyStore()
      for (const value of INVALID_IDS) {
        const { message, code } = await failureOf(store, name, withArgument(name, index, value))
        assert.equal(code, 'WAYMARK_INVALID_ID', `${JSON.stringify(value)}: ${message}`)
        assert.match(message, /^Invalid (session|task|checkpoint) id "/)
      }
      isUntouched()
    })
  }

  it('saveSession and createCheckpoint check the id inside a session', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const name of ['saveSession', 'createCheckpoint']) {
      for (const id of INVALID_IDS) {
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
})

describe('arguments of the wrong type', () => {
  it('saveSession and createCheckpoint reject a session that is not an object', async () => {
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

  it('trees, agent states and contexts must be Maps or objects', async () => {
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
})

describe('values that JSON cannot hold', () => {
  for (const [kind, value] of Object.entries(UNSTORABLE)) {
    it(`every method reports ${kind} the same way and writes nothing`, async () => {
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

  it('a Map with another toStringTag is a Map, and a proxied session a session', async () => {
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

  it('a value too deep to read back is rejected and the old value stays', async () => {
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
})
