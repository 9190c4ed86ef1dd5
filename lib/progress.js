// The options `onProgress` and `signal` of long-running methods.
//
// The addon takes a control handle as its last argument and writes its progress there. A timer polls the handle, so no
// worker thread waits for a callback, and no callback runs after the promise has settled.

'use strict'

const { newControl, progressOf, stopWork } = require('../binding.js')
const { abortError, checkedSignal } = require('./abort-signal.js')
const { invalidValue, isObject, readArgument } = require('./errors.js')
const { startInterval } = require('./timer.js')

const POLL_INTERVAL_MS = 50

/** Marks a wrapper with the method that it wraps: test runners evaluate this file again for a class that is already wrapped. */
const WRAPPED = Symbol.for('waymark.wrapped')

/**
 * Wraps a method of the addon so that its options accept `onProgress` and `signal`. The options are argument number
 * `optionsIndex`, the last one; `findOptions` finds them where they may come earlier.
 */
function addProgress(prototype, name, optionsIndex, findOptions = (args) => args[optionsIndex]) {
  const native = prototype[name][WRAPPED] ?? prototype[name]
  const methods = {
    async [name](...args) {
      const handle = newControl()
      const nativeArgs = args.slice(0, optionsIndex + 1)
      nativeArgs[optionsIndex + 1] = handle
      return runWithProgress(findOptions(args), handle, () => native.apply(this, nativeArgs))
    },
  }
  const method = methods[name]
  Object.defineProperty(method, WRAPPED, { value: native })
  // The control handle is not a public parameter.
  Object.defineProperty(method, 'length', { value: native.length, configurable: true })
  Object.defineProperty(prototype, name, { value: method, configurable: true, enumerable: false, writable: true })
}

async function runWithProgress(options, handle, run) {
  const { onProgress, signal } = checkedOptions(options)
  if (signal?.aborted) throw abortError(signal)
  const reporter = new ProgressReporter(handle, onProgress)
  const abort = () => stopWork(handle)
  signal?.addEventListener('abort', abort, { once: true })
  try {
    const result = await run()
    reporter.poll()
    reporter.rethrow()
    return result
  } catch (error) {
    reporter.rethrow()
    throw error?.code === 'ABORT_ERR' && signal?.aborted ? abortError(signal) : error
  } finally {
    reporter.stop()
    signal?.removeEventListener('abort', abort)
  }
}

/** Calls `onProgress` when the progress has changed. An exception from the callback stops the work. */
class ProgressReporter {
  #handle
  #onProgress
  #timer
  #reported
  #thrown

  constructor(handle, onProgress) {
    this.#handle = handle
    this.#onProgress = onProgress
    if (onProgress) this.#timer = startInterval(() => this.poll(), POLL_INTERVAL_MS)
  }

  poll() {
    if (!this.#onProgress || this.#thrown) return
    const progress = progressOf(this.#handle)
    if (!progress || (this.#reported && isSame(progress, this.#reported))) return
    this.#reported = { ...progress }
    try {
      this.#onProgress(progress)
    } catch (error) {
      this.#thrown = { error }
      stopWork(this.#handle)
    }
  }

  rethrow() {
    if (this.#thrown) throw this.#thrown.error
  }

  stop() {
    clearInterval(this.#timer)
  }
}

const isSame = (a, b) => a.phase === b.phase && a.done === b.done && a.total === b.total && a.bytes === b.bytes

function checkedOptions(options) {
  if (options === undefined) return {}
  return readArgument(() => {
    if (!isObject(options)) throw invalidValue('options', 'an object', options)
    const { onProgress, signal } = options
    if (onProgress !== undefined && typeof onProgress !== 'function') {
      throw invalidValue('options.onProgress', 'a function', onProgress)
    }
    return { onProgress, signal: checkedSignal(signal) }
  })
}

module.exports = { addProgress }
