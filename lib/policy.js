// When a checkpoint is due: questions without a memory, so that policies can be shared.

'use strict'

const { invalidArgument, isObject, wrong } = require('./errors.js')

const EVENTS = new Set(['tool_call', 'model_response', 'iteration', 'error', 'timer'])
const ONE_OF_EVENTS = 'one of "tool_call", "model_response", "iteration", "error" and "timer"'

class CheckpointPolicy {
  #says

  constructor(says) {
    if (typeof says !== 'function') {
      throw invalidArgument('A CheckpointPolicy is made by a static method, such as CheckpointPolicy.afterToolCall()')
    }
    this.#says = says
    Object.freeze(this)
  }

  static afterToolCall() {
    return new CheckpointPolicy((_iteration, { type }) => type === 'tool_call')
  }

  static afterModelResponse() {
    return new CheckpointPolicy((_iteration, { type }) => type === 'model_response')
  }

  static everyIterations(n) {
    if (!Number.isSafeInteger(n) || n < 1) throw wrong('n', 'a whole number, 1 or more', n)
    return new CheckpointPolicy((iteration, { type }) => type === 'iteration' && iteration > 0 && iteration % n === 0)
  }

  static everyMs(ms) {
    if (!Number.isFinite(ms) || ms <= 0) throw wrong('ms', 'a finite number above 0', ms)
    return new CheckpointPolicy((_iteration, { elapsedMs }) => elapsedMs >= ms)
  }

  static onError() {
    return new CheckpointPolicy((_iteration, { type }) => type === 'error')
  }

  static never() {
    return new CheckpointPolicy(() => false)
  }

  static anyOf(...policies) {
    if (policies.length === 0) throw invalidArgument('policies must be one CheckpointPolicy or more; got none')
    for (const [index, policy] of policies.entries()) {
      if (!(policy instanceof CheckpointPolicy)) throw wrong(`policies[${index}]`, 'a CheckpointPolicy', policy)
    }
    return new CheckpointPolicy((iteration, event) => policies.some((policy) => policy.#says(iteration, event)))
  }

  shouldCheckpoint(iteration, event) {
    if (!Number.isSafeInteger(iteration) || iteration < 0) {
      throw wrong('iteration', 'a whole number, 0 or more', iteration)
    }
    return this.#says(iteration, readEvent(event))
  }
}

/** An event as an object. */
function readEvent(event) {
  if (!isObject(event)) {
    if (!EVENTS.has(event)) throw wrong('event', `${ONE_OF_EVENTS}, or an object with one of them as its type`, event)
    return { type: event }
  }
  const { type, elapsedMs } = event
  if (!EVENTS.has(type)) throw wrong('event.type', ONE_OF_EVENTS, type)
  const isNumber = typeof elapsedMs === 'number' && !Number.isNaN(elapsedMs)
  if (elapsedMs !== undefined && !isNumber) throw wrong('event.elapsedMs', 'a number of milliseconds', elapsedMs)
  return { type, elapsedMs }
}

module.exports = { CheckpointPolicy, readEvent }
