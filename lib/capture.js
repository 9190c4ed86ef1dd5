// What an orchestrator hands over to be stored.

'use strict'

const { describe, errorOf, isObject, wrong } = require('./errors.js')

/** The state that `capture` returns, checked; a promise of it only if `capture` returns one. */
function captureState(capture, sessionId) {
  let captured
  try {
    captured = capture()
  } catch (thrown) {
    throw captureError(thrown)
  }
  if (typeof captured?.then !== 'function') return checkedState(captured, sessionId)
  return Promise.resolve(captured).then(
    (state) => checkedState(state, sessionId),
    (thrown) => {
      throw captureError(thrown)
    },
  )
}

function checkedState(state, sessionId) {
  if (!isObject(state)) throw wrong('What capture() returns', 'an object with a session', state)
  if (!isObject(state.session)) throw wrong('The session that capture() returns', 'an object', state.session)
  const { id } = state.session
  if (id !== sessionId) throw wrong('The id of the session that capture() returns', describe(sessionId), id)
  return state
}

function captureError(thrown) {
  const reason = typeof thrown?.message === 'string' ? thrown.message : `it threw ${describe(thrown)}`
  return errorOf('WAYMARK_INVALID_ARGUMENT', `capture() failed: ${reason}`, thrown)
}

module.exports = { captureState }
