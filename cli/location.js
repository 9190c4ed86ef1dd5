// Where a store is, and opening it there.

'use strict'

const { existsSync } = require('node:fs')

const { wrongUse } = require('./complaint.js')

const PATH = /^(?:[/\\]|\.{1,2}(?:[/\\]|$)|~(?:[/\\]|$)|[A-Za-z]:[/\\])/
/** Of the form that the class takes, or of one that it will say it does not take: no session has a slash. */
const SCHEME = /^(?:(?:sqlite|memory|postgres|postgresql):|[a-z][a-z\d+]+:\/\/)/i

/** Whether a word says by its beginning that it is a place, and no session. */
function isLocation(word) {
  return PATH.test(word) || SCHEME.test(word)
}

/**
 * An open store. `initialize()` makes what is not there: whoever only looks must not, so without `create` a place that does
 * not exist is refused. What a server has is for the server to say.
 */
async function openStore(location, { create = false, ...options } = {}) {
  const { CheckpointStore } = require('../index.js')
  // What others keep is not for this command to limit: the defaults of the class would.
  const limits = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }
  const store = new CheckpointStore(location, { ...limits, ...options })
  const place = store.getBaseDir()
  const file = fileOf(place)
  if (!create && file !== undefined && !existsSync(file)) throw absent(place, location)
  await store.initialize()
  return store
}

/** The file or directory of a place, if it has one. */
function fileOf(place) {
  if (place.startsWith('sqlite:')) return place.slice('sqlite:'.length)
  return SCHEME.test(place) ? undefined : place
}

function absent(place, location) {
  const next =
    location === undefined
      ? 'Name one as the last word, with --store, or in WAYMARK_STORE.'
      : 'Check the spelling: a place is a directory, sqlite:<file> or postgres://….'
  return wrongUse(`There is no store at ${place}. ${next}`)
}

module.exports = { isLocation, openStore }
