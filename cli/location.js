// Where a store is, and opening it there.

'use strict'

const { wrongUse } = require('./complaint.js')

const PATH = /^(?:[/\\]|\.{1,2}(?:[/\\]|$)|~(?:[/\\]|$)|[A-Za-z]:[/\\])/
/** Of the form that the class takes, or of one that it will say it does not take: no session has a slash. */
const SCHEME = /^(?:(?:sqlite|memory|postgres|postgresql):|[a-z][a-z\d+]+:\/\/)/i

/** Whether a word says by its beginning that it is a place, and no session. */
function isLocation(word) {
  return PATH.test(word) || SCHEME.test(word)
}

/** An open store. Whoever only looks makes none: without `create`, a place that does not exist is refused. */
async function openStore(location, { create = false, ...options } = {}) {
  const { CheckpointStore } = require('../index.js')
  // What others keep is not for this command to limit: the defaults of the class would.
  const limits = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }
  const store = new CheckpointStore(location, { ...limits, ...options, mustExist: !create })
  try {
    await store.initialize()
  } catch (error) {
    throw error.code === 'WAYMARK_NOT_FOUND' ? absent(error, location) : error
  }
  return store
}

function absent({ message }, location) {
  const next =
    location === undefined
      ? 'Name one as the last word, with --store, or in WAYMARK_STORE.'
      : 'Check the spelling: a place is a directory, sqlite:<file> or postgres://….'
  return wrongUse(`${message}. ${next}`)
}

module.exports = { isLocation, openStore }
