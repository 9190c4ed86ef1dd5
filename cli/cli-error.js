// What the command says when it does not do what it was asked for: a sentence, and what to do next.

'use strict'

const DONE = 0
const FAILED = 1
const WRONG_USE = 2
const STOPPED = 130

class Complaint extends Error {
  /** `details` are lines below the sentence, such as the candidates of a beginning that fits several. */
  constructor(message, exitCode, details = []) {
    super(message)
    this.exitCode = exitCode
    this.details = details
  }
}

/** The caller asked for something that there is not. */
function wrongUse(message, details) {
  return new Complaint(message, WRONG_USE, details)
}

/** The work itself failed. */
function failure(message, details) {
  return new Complaint(message, FAILED, details)
}

module.exports = { Complaint, DONE, FAILED, STOPPED, WRONG_USE, failure, wrongUse }
