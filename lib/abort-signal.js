// `AbortSignal` in options.

'use strict'

const { invalidValue } = require('./errors.js')

/** Duck-typed, because test runners give tests a global object with an `AbortSignal` of its own. */
function checkedSignal(signal) {
  const isSignal = typeof signal?.aborted === 'boolean' && typeof signal.addEventListener === 'function'
  if (signal !== undefined && !isSignal) throw invalidValue('options.signal', 'an AbortSignal', signal)
  return signal
}

/** The error that Node's own methods reject with: the signal's reason is its `cause`. */
function abortError(signal) {
  const error = new Error('The operation was aborted', { cause: signal.reason })
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' })
}

module.exports = { abortError, checkedSignal }
