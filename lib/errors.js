// Errors with the codes and in the words of the addon.

'use strict'

const LONGEST_QUOTE = 60

/** Errors that were made here. */
const made = new WeakSet()

/** An `Error` with a `code`; it has a `cause` if one is passed. */
function errorOf(code, message, ...cause) {
  const error = cause.length > 0 ? new Error(message, { cause: cause[0] }) : new Error(message)
  made.add(error)
  return Object.assign(error, { code })
}

/** What `read` returns. What a getter or a proxy throws meanwhile becomes the `cause` of an error with a code. */
function reading(read) {
  try {
    return read()
  } catch (thrown) {
    if (thrown instanceof Error && made.has(thrown)) throw thrown
    throw errorOf('WAYMARK_INVALID_ARGUMENT', `An argument cannot be read: ${reasonOf(thrown)}`, thrown)
  }
}

/** What was thrown, in words; it may be anything. */
function reasonOf(thrown) {
  try {
    return typeof thrown?.message === 'string' ? thrown.message : `it threw ${describe(thrown)}`
  } catch {
    return 'what it threw cannot be read either'
  }
}

function invalidArgument(message) {
  return errorOf('WAYMARK_INVALID_ARGUMENT', message)
}

/** The complaint about a value that is not what it must be. */
function wrong(name, expected, value) {
  return invalidArgument(`${name} must be ${expected}; got ${describe(value)}`)
}

/** `Array.isArray`, which throws for a revoked proxy. */
function isArray(value) {
  try {
    return Array.isArray(value)
  } catch (cause) {
    throw errorOf('WAYMARK_INVALID_ARGUMENT', `An argument cannot be read: ${cause.message}`, cause)
  }
}

/** A value in a few words. */
function describe(value) {
  if (isArray(value)) return 'an array'
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > LONGEST_QUOTE ? `${value.slice(0, LONGEST_QUOTE)}…` : value)
    case 'bigint':
      return 'a BigInt'
    case 'symbol':
    case 'function':
      return `a ${typeof value}`
    case 'object':
      if (value instanceof Map) return 'a Map'
      if (value instanceof Set) return 'a Set'
      return value === null ? 'null' : 'an object'
    default:
      return String(value)
  }
}

/** An object that is no array. */
function isObject(value) {
  return typeof value === 'object' && value !== null && !isArray(value)
}

module.exports = { describe, errorOf, invalidArgument, isObject, reading, reasonOf, wrong }
