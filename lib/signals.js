// `AbortSignal` as options take it.

'use strict'

const { wrong } = require('./errors.js')

/** A signal that was given, or nothing. Of this realm or another: test runners give their tests a global object of their own. */
function checkedSignal(signal) {
  const isSignal = typeof signal?.aborted === 'boolean' && typeof signal.addEventListener === 'function'
  if (signal !== undefined && !isSignal) throw wrong('options.signal', 'an AbortSignal', signal)
  return signal
}

/** As Node's own methods reject: whatever the reason is, it is the cause. */
function abortError(signal) {
  const error = new Error('The operation was aborted', { cause: signal.reason })
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' })
}

module.exports = { abortError, checkedSignal }
