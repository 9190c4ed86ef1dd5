import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { CheckpointPolicy } from '../../index.js'

const EVENTS = ['tool_call', 'model_response', 'iteration', 'error', 'timer']

/** The events for which a policy returns true. */
const wanted = (policy, iteration = 1) => EVENTS.filter((event) => policy.shouldCheckpoint(iteration, event))

const refusal = (message) => ({ name: 'Error', code: 'WAYMARK_INVALID_ARGUMENT', message })

describe('CheckpointPolicy', () => {
  it('afterToolCall, afterModelResponse and onError match that event alone', () => {
    assert.deepEqual(wanted(CheckpointPolicy.afterToolCall()), ['tool_call'])
    assert.deepEqual(wanted(CheckpointPolicy.afterModelResponse()), ['model_response'])
    assert.deepEqual(wanted(CheckpointPolicy.onError()), ['error'])
  })

  it('never matches nothing', () => {
    assert.deepEqual(wanted(CheckpointPolicy.never()), [])
    assert.equal(CheckpointPolicy.never().shouldCheckpoint(1, { type: 'timer', elapsedMs: Infinity }), false)
  })

  it('everyIterations matches each multiple of n, but not 0', () => {
    const policy = CheckpointPolicy.everyIterations(3)
    const iterations = Array.from({ length: 10 }, (_, iteration) => iteration)
    const due = iterations.filter((iteration) => policy.shouldCheckpoint(iteration, 'iteration'))
    assert.deepEqual(due, [3, 6, 9])
    assert.deepEqual(wanted(policy, 3), ['iteration'])
    assert.deepEqual(wanted(CheckpointPolicy.everyIterations(1), 0), [])
  })

  it('everyMs matches any event once the time has passed', () => {
    const policy = CheckpointPolicy.everyMs(100)
    for (const type of EVENTS) {
      assert.equal(policy.shouldCheckpoint(0, { type, elapsedMs: 99.9 }), false)
      assert.equal(policy.shouldCheckpoint(0, { type, elapsedMs: 100 }), true)
      assert.equal(policy.shouldCheckpoint(0, { type, elapsedMs: Infinity }), true)
      assert.equal(policy.shouldCheckpoint(0, { type, elapsedMs: -1 }), false)
      assert.equal(policy.shouldCheckpoint(0, { type }), false, 'the elapsed time is unknown')
      assert.equal(policy.shouldCheckpoint(0, type), false)
    }
  })

  it('anyOf matches when one of its policies does', () => {
    const { afterToolCall, anyOf, everyIterations, everyMs, never, onError } = CheckpointPolicy
    const policy = anyOf(afterToolCall(), anyOf(everyIterations(5), onError()), never())
    assert.deepEqual(wanted(policy, 4), ['tool_call', 'error'])
    assert.deepEqual(wanted(policy, 5), ['tool_call', 'iteration', 'error'])
    assert.equal(anyOf(policy, everyMs(1)).shouldCheckpoint(4, { type: 'timer', elapsedMs: 1 }), true)
    assert.deepEqual(wanted(anyOf(never())), [])
  })

  it('accepts an event by name and as an object', () => {
    for (const type of EVENTS) {
      assert.equal(CheckpointPolicy.afterToolCall().shouldCheckpoint(1, { type }), type === 'tool_call')
    }
  })

  it('gives the same answer to the same question and is immutable', () => {
    const policy = CheckpointPolicy.everyIterations(2)
    for (const iteration of [2, 3, 2, 2, 3]) {
      assert.equal(policy.shouldCheckpoint(iteration, 'iteration'), iteration === 2)
    }
    assert.ok(Object.isFrozen(policy))
    const parts = [CheckpointPolicy.never()]
    const whole = CheckpointPolicy.anyOf(...parts)
    parts.push(CheckpointPolicy.onError())
    assert.deepEqual(wanted(whole), [])
  })

  it('is created by static methods and prints which', () => {
    assert.throws(
      () => new CheckpointPolicy(),
      refusal('Use a static method to create a CheckpointPolicy, such as CheckpointPolicy.afterToolCall()'),
    )
  })
})

describe('CheckpointPolicy arguments', () => {
  it('everyIterations rejects what is not a whole number of at least 1', () => {
    const shown = [
      [0, '0'],
      [-1, '-1'],
      [1.5, '1.5'],
      [NaN, 'NaN'],
      [Infinity, 'Infinity'],
      ['5', '"5"'],
      [5n, 'a BigInt'],
      [undefined, 'undefined'],
      [null, 'null'],
    ]
    for (const [n, got] of shown) {
      const message = `n must be a whole number, 1 or more; got ${got}`
      assert.throws(() => CheckpointPolicy.everyIterations(n), refusal(message))
    }
  })

  it('everyMs rejects what is not finite and above 0', () => {
    const shown = [
      [0, '0'],
      [-0.5, '-0.5'],
      [NaN, 'NaN'],
      [Infinity, 'Infinity'],
      ['100', '"100"'],
      [[100], 'an array'],
      [{}, 'an object'],
      [undefined, 'undefined'],
    ]
    for (const [ms, got] of shown) {
      const message = `ms must be a finite number above 0; got ${got}`
      assert.throws(() => CheckpointPolicy.everyMs(ms), refusal(message))
    }
    assert.ok(CheckpointPolicy.everyMs(0.5).shouldCheckpoint(0, { type: 'timer', elapsedMs: 0.5 }))
  })

  it('anyOf rejects an empty list and values that are not policies', () => {
    const { anyOf, never } = CheckpointPolicy
    assert.throws(() => anyOf(), refusal('policies must be one CheckpointPolicy or more; got none'))
    const shown = [
      ['tool_call', '"tool_call"'],
      [() => true, 'a function'],
      [[never()], 'an array'],
      [{ shouldCheckpoint: () => true }, 'an object'],
      [undefined, 'undefined'],
      [Symbol('s'), 'a symbol'],
      [new Map(), 'a Map'],
      [new Set(), 'a Set'],
    ]
    for (const [policy, got] of shown) {
      const message = `policies[1] must be a CheckpointPolicy; got ${got}`
      assert.throws(() => anyOf(never(), policy), refusal(message))
    }
  })
})

describe('CheckpointPolicy.shouldCheckpoint arguments', () => {
  const oneOf = 'one of "tool_call", "model_response", "iteration", "error" and "timer"'
  const policies = [CheckpointPolicy.never(), CheckpointPolicy.anyOf(CheckpointPolicy.everyMs(1))]

  it('an unknown event is rejected', () => {
    const shown = [
      ['toolCall', '"toolCall"'],
      ['', '""'],
      ['x'.repeat(1000), `"${'x'.repeat(60)}…"`],
      [undefined, 'undefined'],
      [null, 'null'],
      [1, '1'],
      [['tool_call'], 'an array'],
    ]
    for (const policy of policies) {
      for (const [event, got] of shown) {
        const message = `event must be ${oneOf}, or an object with one of them as its type; got ${got}`
        assert.throws(() => policy.shouldCheckpoint(1, event), refusal(message))
      }
      const asObject = refusal(`event.type must be ${oneOf}; got "toolCall"`)
      assert.throws(() => policy.shouldCheckpoint(1, { type: 'toolCall' }), asObject)
      assert.throws(() => policy.shouldCheckpoint(1, { elapsedMs: 5 }), { code: 'WAYMARK_INVALID_ARGUMENT' })
      for (const elapsedMs of [NaN, '5', null]) {
        const got = elapsedMs === '5' ? '"5"' : String(elapsedMs)
        const wrong = refusal(`event.elapsedMs must be a number of milliseconds; got ${got}`)
        assert.throws(() => policy.shouldCheckpoint(1, { type: 'timer', elapsedMs }), wrong)
      }
    }
  })

  it('an iteration that is not a whole number of at least 0 is rejected', () => {
    for (const policy of policies) {
      for (const iteration of [-1, 0.5, NaN, Infinity, null, undefined]) {
        const message = `iteration must be a whole number, 0 or more; got ${iteration}`
        assert.throws(() => policy.shouldCheckpoint(iteration, 'iteration'), refusal(message))
      }
    }
  })
})
