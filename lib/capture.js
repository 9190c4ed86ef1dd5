// What an orchestrator hands over to be stored.

'use strict'

const { describe, errorOf, isObject, reading, reasonOf, wrong } = require('./errors.js')
const { startTimeout } = require('./timer.js')

/**
 * The members of the state that `capture` returns, checked; a promise of it only if `capture` returns one. A promise that is not settled within
 * `timeoutMs` has failed: what it becomes later is ignored.
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
  return within(settled(captured), timeoutMs).then(
    (state) => checkedState(state, sessionId),
    (thrown) => {
      throw captureError(thrown)
    },
  )
}

/** A promise of what a thenable becomes. */
const settled = async (thenable) => thenable

/** The promise, or a rejection if it is not settled in time. */
function within(promise, timeoutMs) {
  if (timeoutMs === Infinity) return promise
  let timer
  const timeout = new Promise((_, reject) => {
    const late = () => reject(errorOf('ETIMEDOUT', `it did not settle within ${timeoutMs} ms (captureTimeoutMs)`))
    timer = startTimeout(late, timeoutMs)
  })
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer))
}

function checkedState(state, sessionId) {
  return reading(() => {
    if (!isObject(state)) throw wrong('What capture() returns', 'an object with a session', state)
    const { session, agentStates, contextStore } = state
    if (!isObject(session)) throw wrong('The session that capture() returns', 'an object', session)
    const { id } = session
    if (id !== sessionId) throw wrong('The id of the session that capture() returns', describe(sessionId), id)
    return { session, agentStates, contextStore }
  })
}

function captureError(thrown) {
  return errorOf('WAYMARK_INVALID_ARGUMENT', `capture() failed: ${reasonOf(thrown)}`, thrown)
}

module.exports = { captureState }
