// Checkpoints that are taken by themselves: on a timer, when a policy says so, and a last one at the end.

'use strict'

const { captureState } = require('./capture.js')
const { describe, errorOf, invalidArgument, isObject, reading, wrong } = require('./errors.js')
const { OneAtATime } = require('./one-at-a-time.js')
const { CheckpointPolicy, readEvent } = require('./policy.js')
const { startTimer } = require('./timer.js')

/** A timer that is set to more fires at once. */
const LONGEST_INTERVAL_MS = 2_147_483_647
const DEFAULT_CAPTURE_TIMEOUT_MS = 60_000
const DEFAULTS = { trigger: 'auto', includeContext: true }

class AutoCheckpoint {
  #store
  #given
  #checkpoints = new OneAtATime((options) => this.#take(options))
  #timer
  #iteration = 0
  #last
  #lastAt = performance.now()
  #taken = 0
  #stopped

  constructor(store, options) {
    this.#store = store
    this.#given = reading(() => checked(options))
    const { everyMs } = this.#given
    if (everyMs !== undefined) this.#timer = startTimer(() => this.#checkpoints.want().catch(warn), everyMs)
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
    this.#refuseIfStopped()
    const { type } = readEvent(event)
    const elapsedMs = performance.now() - this.#lastAt
    const isDue = this.#given.policy.shouldCheckpoint(iteration, { type, elapsedMs })
    this.#iteration = iteration
    return isDue ? this.#checkpoints.want() : undefined
  }

  async now(options = {}) {
    this.#refuseIfStopped()
    if (!isObject(options)) throw wrong('options', 'an object', options)
    // Read before it is queued: what a getter throws belongs to this call.
    return this.#checkpoints.want(reading(() => ({ ...options })))
  }

  stop() {
    if (!this.isStopped) {
      clearInterval(this.#timer)
      // Before the last one begins: its capture must find this object stopped.
      let resolveWith
      this.#stopped = new Promise((resolve) => {
        resolveWith = resolve
      })
      resolveWith(this.#checkpoints.want())
    }
    return this.#stopped
  }

  #refuseIfStopped() {
    if (!this.isStopped) return
    throw errorOf('WAYMARK_CLOSED', 'AutoCheckpoint is stopped. Call autoCheckpoint() to start another.')
  }

  async #take(options) {
    const { capture, captureTimeoutMs, sessionId, checkpointOptions, onError } = this.#given
    const startedAt = performance.now()
    try {
      const captured = captureState(capture, sessionId, captureTimeoutMs)
      // No `await` without need: what was captured at once is stored before anybody can change it.
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
      // Asynchronous, so that an onError that throws and one that rejects are the same.
      const tell = async () => onError(error)
      tell().catch(warn)
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

/** What was asked for: checked, and with what was left out. */
function checked(options) {
  if (!isObject(options)) throw wrong('options', 'an object', options)
  const { sessionId, everyMs, policy, capture, options: checkpointOptions, onError } = options
  const { captureTimeoutMs = DEFAULT_CAPTURE_TIMEOUT_MS } = options
  const demand = (isMet, name, expected) => {
    if (!isMet) throw wrong(`options.${name}`, expected, options[name])
  }
  const isTime = (value) => typeof value === 'number' && value > 0 && value <= LONGEST_INTERVAL_MS
  demand(typeof sessionId === 'string', 'sessionId', 'a string')
  demand(everyMs === undefined || isTime(everyMs), 'everyMs', `a number above 0, ${LONGEST_INTERVAL_MS} at most`)
  demand(policy === undefined || policy instanceof CheckpointPolicy, 'policy', 'a CheckpointPolicy')
  demand(typeof capture === 'function', 'capture', 'a function')
  const isTimeout = captureTimeoutMs === Infinity || isTime(captureTimeoutMs)
  demand(isTimeout, 'captureTimeoutMs', `a number above 0, ${LONGEST_INTERVAL_MS} at most, or Infinity`)
  demand(checkpointOptions === undefined || isObject(checkpointOptions), 'options', 'an object')
  demand(onError === undefined || typeof onError === 'function', 'onError', 'a function')
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

/** For failures that nobody else hears of. */
function warn(thrown) {
  const warning = thrown instanceof Error ? thrown : new Error(`onError threw ${describe(thrown)}`)
  if (globalThis.process?.emitWarning) process.emitWarning(warning)
  else console.warn(warning)
}

module.exports = { AutoCheckpoint }
