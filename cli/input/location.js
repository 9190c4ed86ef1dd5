// Where a store is, and opening it there.

'use strict'

const { failure, wrongUse } = require('./complaint.js')

const CHECK_SPELLING = 'Check the spelling: a place is a directory, sqlite:<file> or postgres://….'

const PATH = /^(?:[/\\]|\.{1,2}(?:[/\\]|$)|~(?:[/\\]|$)|[A-Za-z]:[/\\])/
/** Of the form that the class takes, or of one that it will say it does not take: no session has a slash or a colon. */
const SCHEME =
  /^(?:(?:sqlite|memory|postgres|postgresql):|(?:sqlite|postgres|postgresql|postgre)\/\/|[^/\\]*:(?:\/\/|.*@))/i

/** Whether a word says by its beginning that it is a place, and no session. It may hold a password, and is never shown. */
function isLocation(word) {
  return PATH.test(word) || SCHEME.test(word)
}

/** An open store. Whoever only looks makes none: without `create`, a place that does not exist is refused. */
async function openStore(location, { create = false, ...options } = {}) {
  const { CheckpointStore } = require('../index.js')
  // What others keep is not for this command to limit: the defaults of the class would.
  const limits = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }
  const store = new CheckpointStore(location, { ...limits, ...options, mustExist: !create })
  await store.initialize()
  return store
}

/** What to say of a place that could not be opened; `words` are those that it was named with, or was not. */
function notOpened(error, location, words) {
  const { code, message } = error
  if (code === 'WAYMARK_NOT_FOUND') return wrongUse(`${message}. ${nextPlace(location, words)}`)
  if (code === 'WAYMARK_CORRUPT') return failure(`${message}. ${CHECK_SPELLING}`)
  if (/SQLITE_(?:READONLY|CANTOPEN)/.test(message)) {
    return failure(
      `${message}. A database is looked at by those who may write to it; a copy of the file can be looked at.`,
    )
  }
  return error
}

function nextPlace(location, { location: last, ...words }) {
  const { existsSync } = require('node:fs')
  const { quoted } = require('./command-line.js')
  const others = Object.values(words)
  if (last !== undefined && others.some(isLocation)) return 'The location comes last.'
  const place = location === undefined && others.find((word) => existsSync(word))
  if (place) return `If you mean the place, write ${quoted(`./${place}`)}.`
  return location === undefined ? 'Name one as the last word, with --store, or in WAYMARK_STORE.' : CHECK_SPELLING
}

module.exports = { isLocation, notOpened, openStore }
