// Calls `capture` and checks the state that it returns.

'use strict'

const { describe, errorOf, invalidValue, isObject, readArgument, reasonOf } = require('./errors.js')
const { startTimeout } = require('./timer.js')

/**
 * The checked state, or a promise of it if `capture` returns a promise. One that does not settle within `timeoutMs` is a
 * failure, and its later result is ignored.
 */
function captureState(capture, sessionId, timeoutMs) {
  let captured
  let isPromise
  try {
    captured = capture()
    isPromise = typeof captured?.then === 'function'
  } catch (thrown) {
    throw captureError(thrown)
  }
  if (!isPromise) return checkedState(captured, sessionId)
  return withTimeout(toPromise(captured), timeoutMs).then(
    (state) => checkedState(state, sessionId),
    (thrown) => {
      throw captureError(thrown)
    },
  )
}

const toPromise = async (thenable) => thenable

function withTimeout(promise, timeoutMs) {
  if (timeoutMs === Infinity) return promise
  let timer
  const timeout = new Promise((_, reject) => {
    const expire = () => reject(errorOf('ETIMEDOUT', `it did not settle within ${timeoutMs} ms (captureTimeoutMs)`))
    timer = startTimeout(expire, timeoutMs)
  })
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer))
}

function checkedState(state, sessionId) {
  return readArgument(() => {
    if (!isObject(state)) throw invalidValue('What capture() returns', 'an object with a session', state)
    const { session, agentStates, contextStore } = state
    if (!isObject(session)) throw invalidValue('The session that capture() returns', 'an object', session)
    const { id } = session
    if (id !== sessionId) throw invalidValue('The id of the session that capture() returns', describe(sessionId), id)
    return { session, agentStates, contextStore }
  })
}

function captureError(thrown) {
  return errorOf('WAYMARK_INVALID_ARGUMENT', `capture() failed: ${reasonOf(thrown)}`, thrown)
}

module.exports = { captureState }
