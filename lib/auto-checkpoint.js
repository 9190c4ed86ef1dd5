// Automatic checkpoints: on a timer, when a policy asks for one, and a last one at the end.

'use strict'

const { captureState } = require('./capture.js')
const { CoalescingQueue } = require('./coalescing-queue.js')
const { describe, errorOf, invalidArgument, invalidValue, isObject, readArgument } = require('./errors.js')
const { CheckpointPolicy, readEvent } = require('./policy.js')
const { startInterval } = require('./timer.js')

/** A longer timer fires immediately. */
const MAX_INTERVAL_MS = 2_147_483_647
const DEFAULT_CAPTURE_TIMEOUT_MS = 60_000
const DEFAULTS = { trigger: 'auto', includeContext: true }

class AutoCheckpoint {
  #store
  #options
  #queue = new CoalescingQueue((options) => this.#take(options))
  #timer
  #iteration = 0
  #last
  #lastAt = performance.now()
  #taken = 0
  #stopped

  constructor(store, options) {
    this.#store = store
    this.#options = readArgument(() => checkedOptions(options))
    const { everyMs } = this.#options
    if (everyMs !== undefined) this.#timer = startInterval(() => this.#queue.request().catch(warn), everyMs)
  }

  get last() {
    return this.#last
  }

  get taken() {
    return this.#taken
  }

  get isStopped() {
    return this.#stopped !== undefined
  }

  async notify(event, iteration = this.#iteration) {
    this.#assertRunning()
    const { type } = readEvent(event)
    const elapsedMs = performance.now() - this.#lastAt
    const isDue = this.#options.policy.shouldCheckpoint(iteration, { type, elapsedMs })
    this.#iteration = iteration
    return isDue ? this.#queue.request() : undefined
  }

  async now(options = {}) {
    this.#assertRunning()
    if (!isObject(options)) throw invalidValue('options', 'an object', options)
    // Read the options now, so that an exception from a getter rejects this call.
    return this.#queue.request(readArgument(() => ({ ...options })))
  }

  stop() {
    if (!this.isStopped) {
      clearInterval(this.#timer)
      // Set before the last checkpoint begins: its `capture` must see `isStopped`.
      let settle
      this.#stopped = new Promise((resolve) => {
        settle = resolve
      })
      settle(this.#queue.request())
    }
    return this.#stopped
  }

  #assertRunning() {
    if (!this.isStopped) return
    throw errorOf('WAYMARK_CLOSED', 'AutoCheckpoint is stopped. Call autoCheckpoint() to start another.')
  }

  async #take(options) {
    const { capture, captureTimeoutMs, sessionId, checkpointOptions, onError } = this.#options
    const startedAt = performance.now()
    try {
      const captured = captureState(capture, sessionId, captureTimeoutMs)
      // No `await` for a state that is not a promise: it is stored before other code can change it.
      const { session, agentStates, contextStore } = captured instanceof Promise ? await captured : captured
      const allOptions = { ...checkpointOptions, ...options }
      const result = await this.#store.createCheckpoint(session, agentStates, contextStore, allOptions)
      if (!result.success) throw errorOf(result.code, result.error, ...('cause' in result ? [result.cause] : []))
      this.#last = result
      this.#lastAt = startedAt
      this.#taken += 1
      return result
    } catch (error) {
      if (!onError) throw error
      // Asynchronous, so that an onError that throws and one that rejects are handled alike.
      const report = async () => onError(error)
      report().catch(warn)
      return undefined
    }
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(AutoCheckpoint.prototype, Symbol.asyncDispose, {
    async value() {
      await this.stop()
    },
    configurable: true,
    writable: true,
  })
}

/** The options, checked and with defaults. */
function checkedOptions(options) {
  if (!isObject(options)) throw invalidValue('options', 'an object', options)
  const { sessionId, everyMs, policy, capture, options: checkpointOptions, onError } = options
  const { captureTimeoutMs = DEFAULT_CAPTURE_TIMEOUT_MS } = options
  const check = (isValid, name, expected) => {
    if (!isValid) throw invalidValue(`options.${name}`, expected, options[name])
  }
  const isDuration = (value) => typeof value === 'number' && value > 0 && value <= MAX_INTERVAL_MS
  check(typeof sessionId === 'string', 'sessionId', 'a string')
  check(everyMs === undefined || isDuration(everyMs), 'everyMs', `a number above 0, ${MAX_INTERVAL_MS} at most`)
  check(policy === undefined || policy instanceof CheckpointPolicy, 'policy', 'a CheckpointPolicy')
  check(typeof capture === 'function', 'capture', 'a function')
  const isTimeout = captureTimeoutMs === Infinity || isDuration(captureTimeoutMs)
  check(isTimeout, 'captureTimeoutMs', `a number above 0, ${MAX_INTERVAL_MS} at most, or Infinity`)
  check(checkpointOptions === undefined || isObject(checkpointOptions), 'options', 'an object')
  check(onError === undefined || typeof onError === 'function', 'onError', 'a function')
  if (everyMs === undefined && policy === undefined) {
    throw invalidArgument('options must have everyMs, policy or both; got neither')
  }
  return {
    sessionId,
    everyMs,
    policy: policy ?? CheckpointPolicy.never(),
    capture,
    captureTimeoutMs,
    checkpointOptions: { ...DEFAULTS, ...checkpointOptions },
    onError,
  }
}

/** Reports a failure that no caller can receive. */
function warn(thrown) {
  const warning = thrown instanceof Error ? thrown : new Error(`onError threw ${describe(thrown)}`)
  if (globalThis.process?.emitWarning) process.emitWarning(warning)
  else console.warn(warning)
}

module.exports = { AutoCheckpoint }
