// Errors with the codes and the wording of the addon.

'use strict'

const MAX_QUOTE_LENGTH = 60

/** Errors created by this file. */
const ownErrors = new WeakSet()

/** An `Error` with a `code`, and with a `cause` if one is passed. */
function errorOf(code, message, ...cause) {
  const error = cause.length > 0 ? new Error(message, { cause: cause[0] }) : new Error(message)
  ownErrors.add(error)
  return Object.assign(error, { code })
}

/** Calls `read`. What a getter or a proxy throws becomes the `cause` of a WAYMARK_INVALID_ARGUMENT. */
function readArgument(read) {
  try {
    return read()
  } catch (thrown) {
    if (thrown instanceof Error && ownErrors.has(thrown)) throw thrown
    throw unreadable(thrown)
  }
}

function unreadable(thrown) {
  return errorOf('WAYMARK_INVALID_ARGUMENT', `An argument cannot be read: ${reasonOf(thrown)}`, thrown)
}

/** The message of a thrown value, which may be any value. */
function reasonOf(thrown) {
  try {
    return typeof thrown?.message === 'string' ? thrown.message : `it threw ${describe(thrown)}`
  } catch {
    return 'the thrown value cannot be read either'
  }
}

function invalidArgument(message) {
  return errorOf('WAYMARK_INVALID_ARGUMENT', message)
}

/** The error for an argument of the wrong type or value. */
function invalidValue(name, expected, value) {
  return invalidArgument(`${name} must be ${expected}; got ${describe(value)}`)
}

/** `Array.isArray`, which throws for a revoked proxy. */
function isArray(value) {
  try {
    return Array.isArray(value)
  } catch (cause) {
    throw unreadable(cause)
  }
}

/** A short description of a value for an error message. */
function describe(value) {
  if (isArray(value)) return 'an array'
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > MAX_QUOTE_LENGTH ? `${value.slice(0, MAX_QUOTE_LENGTH)}…` : value)
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

/** Whether a value is an object and not an array. */
function isObject(value) {
  return typeof value === 'object' && value !== null && !isArray(value)
}

module.exports = { describe, errorOf, invalidArgument, invalidValue, isObject, readArgument, reasonOf }
