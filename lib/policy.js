// Decides when a checkpoint is due. Policies are stateless, so they can be shared.

'use strict'

const { invalidArgument, invalidValue, isObject } = require('./errors.js')

const EVENT_TYPES = new Set(['tool_call', 'model_response', 'iteration', 'error', 'timer'])
const ONE_OF_EVENT_TYPES = 'one of "tool_call", "model_response", "iteration", "error" and "timer"'

class CheckpointPolicy {
  #decide

  constructor(decide) {
    if (typeof decide !== 'function') {
      throw invalidArgument(
        'Use a static method to create a CheckpointPolicy, such as CheckpointPolicy.afterToolCall()',
      )
    }
    this.#decide = decide
    Object.freeze(this)
  }

  static afterToolCall() {
    return new CheckpointPolicy((_iteration, { type }) => type === 'tool_call')
  }

  static afterModelResponse() {
    return new CheckpointPolicy((_iteration, { type }) => type === 'model_response')
  }

  static everyIterations(n) {
    if (!Number.isSafeInteger(n) || n < 1) throw invalidValue('n', 'a whole number, 1 or more', n)
    return new CheckpointPolicy((iteration, { type }) => type === 'iteration' && iteration > 0 && iteration % n === 0)
  }

  static everyMs(ms) {
    if (!Number.isFinite(ms) || ms <= 0) throw invalidValue('ms', 'a finite number above 0', ms)
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
      if (!(policy instanceof CheckpointPolicy)) throw invalidValue(`policies[${index}]`, 'a CheckpointPolicy', policy)
    }
    return new CheckpointPolicy((iteration, event) => policies.some((policy) => policy.#decide(iteration, event)))
  }

  shouldCheckpoint(iteration, event) {
    if (!Number.isSafeInteger(iteration) || iteration < 0) {
      throw invalidValue('iteration', 'a whole number, 0 or more', iteration)
    }
    return this.#decide(iteration, readEvent(event))
  }
}

/** The event as an object: a type alone is accepted too. */
function readEvent(event) {
  if (!isObject(event)) {
    if (!EVENT_TYPES.has(event))
      throw invalidValue('event', `${ONE_OF_EVENT_TYPES}, or an object with one of them as its type`, event)
    return { type: event }
  }
  const { type, elapsedMs } = event
  if (!EVENT_TYPES.has(type)) throw invalidValue('event.type', ONE_OF_EVENT_TYPES, type)
  const isNumber = typeof elapsedMs === 'number' && !Number.isNaN(elapsedMs)
  if (elapsedMs !== undefined && !isNumber) throw invalidValue('event.elapsedMs', 'a number of milliseconds', elapsedMs)
  return { type, elapsedMs }
}

module.exports = { CheckpointPolicy, readEvent }
