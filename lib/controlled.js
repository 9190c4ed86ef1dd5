// Long work that is watched and stopped: `onProgress` and `signal`.
//
// The addon takes a control as its last argument. This looks at it on a timer, so that no thread ever waits for a
// callback, and none comes after the promise is settled.

'use strict'

const { newControl, progressOf, stopWork } = require('../binding.js')
const { isObject, reading, wrong } = require('./errors.js')
const { abortError, checkedSignal } = require('./signals.js')
const { startTimer } = require('./timer.js')

/** Twenty times a second is as often as anybody looks. */
const LOOK_EVERY_MS = 50

/** Where a method keeps the addon's own: test runners evaluate these files again for a class that is already loaded. */
const ADDONS_OWN = Symbol.for('waymark.addonsOwn')

/**
 * Replaces a method of the addon by one that has `onProgress` and `signal` in its options, which are the last argument that it
 * takes: number `optionsAt`. Where they may come earlier, `optionsIn` finds them.
 */
function control(prototype, name, optionsAt, optionsIn = (args) => args[optionsAt]) {
  const addonsOwn = prototype[name][ADDONS_OWN] ?? prototype[name]
  const methods = {
    async [name](...args) {
      const handle = newControl()
      const call = args.slice(0, optionsAt + 1)
      call[optionsAt + 1] = handle
      return watched(optionsIn(args), handle, () => addonsOwn.apply(this, call))
    },
  }
  const method = methods[name]
  Object.defineProperty(method, ADDONS_OWN, { value: addonsOwn })
  // As the addon counts them.
  Object.defineProperty(method, 'length', { value: addonsOwn.length, configurable: true })
  Object.defineProperty(prototype, name, { value: method, configurable: true, enumerable: false, writable: true })
}

async function watched(options, handle, work) {
  const { onProgress, signal } = checked(options)
  if (signal?.aborted) throw abortError(signal)
  const watch = new Watch(handle, onProgress)
  const abort = () => stopWork(handle)
  signal?.addEventListener('abort', abort, { once: true })
  try {
    const answer = await work()
    watch.look()
    watch.rethrow()
    return answer
  } catch (error) {
    watch.rethrow()
    throw error?.code === 'ABORT_ERR' && signal?.aborted ? abortError(signal) : error
  } finally {
    watch.end()
    signal?.removeEventListener('abort', abort)
  }
}

/** Tells how far the work is, when that has changed. What the callback throws stops the work. */
class Watch {
  #handle
  #onProgress
  #timer
  #told
  #thrown

  constructor(handle, onProgress) {
    this.#handle = handle
    this.#onProgress = onProgress
    if (onProgress) this.#timer = startTimer(() => this.look(), LOOK_EVERY_MS)
  }

  look() {
    if (!this.#onProgress || this.#thrown) return
    const progress = progressOf(this.#handle)
    if (!progress || (this.#told && isSame(progress, this.#told))) return
    this.#told = { ...progress }
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

  end() {
    clearInterval(this.#timer)
  }
}

const isSame = (a, b) => a.phase === b.phase && a.done === b.done && a.total === b.total && a.bytes === b.bytes

function checked(options) {
  if (options === undefined) return {}
  return reading(() => {
    if (!isObject(options)) throw wrong('options', 'an object', options)
    const { onProgress, signal } = options
    if (onProgress !== undefined && typeof onProgress !== 'function') {
      throw wrong('options.onProgress', 'a function', onProgress)
    }
    return { onProgress, signal: checkedSignal(signal) }
  })
}

module.exports = { control }
