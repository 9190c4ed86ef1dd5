// Leases: a session that another process holds a lease on cannot be changed.

'use strict'

const { failure } = require('../../cli-error.js')
const { duration } = require('../../terminal/units.js')
const { isLeased } = require('../../views/stored-state.js')

function holderSentence({ id, lease }) {
  return `Session ${id} is leased to ${lease.owner} for another ${duration(lease.expiresAt - Date.now())}`
}

/** Refuses a leased session before the user is asked for confirmation; the store would refuse it only afterwards. */
function assertNotLeased(info) {
  if (!isLeased(info)) return
  throw failure(`${holderSentence(info)}. Nothing was changed: stop that process, or wait until its lease has expired.`)
}

function leasedSessions(infos) {
  return infos.filter(isLeased)
}

/** The problem that is reported for a leased session when all sessions were meant. */
function skippedMessage(info) {
  return `${holderSentence(info)}, and was skipped.`
}

/** The leases of skipped sessions, for the JSON result. */
function leasesOf(infos) {
  return infos.map(({ id, lease }) => Object.assign({ sessionId: id }, lease))
}

/** The info of a session, which must not be leased. */
async function unleasedSession(store, sessionId) {
  const info = (await store.sessionInfo(sessionId)) ?? { id: sessionId }
  assertNotLeased(info)
  return info
}

module.exports = { assertNotLeased, leasedSessions, leasesOf, skippedMessage, unleasedSession }
