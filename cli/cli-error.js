// Errors that the command reports to its user, and the exit codes.

'use strict'

const DONE = 0
const FAILED = 1
const USAGE_ERROR = 2
const INTERRUPTED = 130

/** A message that says what failed and what to do next. */
class CliError extends Error {
  /** `details` are printed below the message, such as the candidates of an ambiguous prefix. */
  constructor(message, exitCode, details = []) {
    super(message)
    this.exitCode = exitCode
    this.details = details
  }
}

/** The command line is wrong, or names something that does not exist. */
function usageError(message, details) {
  return new CliError(message, USAGE_ERROR, details)
}

/** The command line is right, but the work failed. */
function failure(message, details) {
  return new CliError(message, FAILED, details)
}

module.exports = { CliError, DONE, FAILED, INTERRUPTED, USAGE_ERROR, failure, usageError }
