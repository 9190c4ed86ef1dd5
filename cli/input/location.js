// The location of a store, and opening it.

'use strict'

const { failure, usageError } = require('../cli-error.js')

const CHECK_SPELLING = 'Check the spelling: a location is a directory, sqlite:<file> or postgres://….'

const PATH = /^(?:[/\\]|\.{1,2}(?:[/\\]|$)|~(?:[/\\]|$)|[A-Za-z]:[/\\])/
/** The schemes that the class accepts, and misspelled ones that it refuses: no session id contains a slash or a colon. */
const SCHEME =
  /^(?:(?:sqlite|memory|postgres|postgresql):|(?:sqlite|postgres|postgresql|postgre)\/\/|[^/\\]*:(?:\/\/|.*@))/i

/** Whether an argument looks like a location and not like a session. It may contain a password: never print it. */
function isLocation(word) {
  return PATH.test(word) || SCHEME.test(word)
}

/** Opens a store. Without `create`, a store that does not exist is an error, and none is created. */
async function openStore(location, { create = false, ...options } = {}) {
  const { CheckpointStore } = require('../../index.js')
  // The defaults of the class would delete checkpoints that other programs keep.
  const limits = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }
  const store = new CheckpointStore(location, { ...limits, ...options, mustExist: !create })
  await store.initialize()
  return store
}

/** The error for a store that could not be opened; `args` are the arguments of the command. */
function toOpenError(error, location, args) {
  const { code, message, cause } = error
  if (code === 'WAYMARK_NOT_FOUND') return usageError(`${message}. ${locationHint(location, args)}`)
  if (code === 'WAYMARK_INVALID_ARGUMENT') return usageError(`The location is not valid: ${message}.`)
  if (code === 'WAYMARK_CORRUPT') return failure(`${message}. ${CHECK_SPELLING}`)
  if (cause?.code === 'SQLITE_READONLY' || cause?.code === 'SQLITE_CANTOPEN') {
    return failure(`${message}. Reading a database needs write permission for it; read a copy of the file instead.`)
  }
  return error
}

function locationHint(location, { location: last, ...args }) {
  const { existsSync } = require('node:fs')
  const others = Object.values(args)
  if (last !== undefined && others.some(isLocation)) return 'The location comes last.'
  const path = location === undefined && others.find((word) => existsSync(word))
  if (path) return pathHint(path)
  return location === undefined ? 'Give one as the last argument, with --store, or in WAYMARK_STORE.' : CHECK_SPELLING
}

/** How to spell a relative path so that it is taken for a location. */
function pathHint(path) {
  const { shellQuote } = require('./command-line.js')
  return `If you mean the directory, write ${shellQuote(`./${path}`)}.`
}

module.exports = { isLocation, openStore, pathHint, toOpenError }
