// Who owns a session: nobody else can write to it.

'use strict'

const { failure } = require('./complaint.js')
const { duration } = require('./terminal/units.js')

/** Refuses before anybody is asked anything: the store would, but only after a yes. */
function refuseIfOwned({ id, lease }) {
  const left = lease ? lease.expiresAt - Date.now() : 0
  if (left <= 0) return
  throw failure(
    `Session ${id} belongs to ${lease.owner} for another ${duration(left)}. ` +
      'Nothing was changed: stop that process, or wait until its lease is over.',
  )
}

/** What is known of a session, which must be nobody's. */
async function unownedSession(store, sessionId) {
  const info = (await store.sessionsInfo()).find(({ id }) => id === sessionId) ?? { id: sessionId }
  refuseIfOwned(info)
  return info
}

module.exports = { refuseIfOwned, unownedSession }
