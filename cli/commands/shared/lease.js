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

/** Those of several sessions that somebody owns. */
function ownedAmong(infos) {
  return infos.filter(({ lease }) => lease && lease.expiresAt > Date.now())
}

/** What is said of one that was left out. */
function leftAlone({ id, lease }) {
  return `Session ${id} belongs to ${lease.owner} for another ${duration(lease.expiresAt - Date.now())}, and was left as it is.`
}

/** What is known of a session, which must be nobody's. */
async function unownedSession(store, sessionId) {
  const info = (await store.sessionInfo(sessionId)) ?? { id: sessionId }
  refuseIfOwned(info)
  return info
}

module.exports = { leftAlone, ownedAmong, refuseIfOwned, unownedSession }
