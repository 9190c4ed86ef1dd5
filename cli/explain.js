// What errors of the store mean for somebody at a terminal, and what they can do next.

'use strict'

const { Complaint, FAILED, STOPPED, WRONG_USE } = require('./complaint.js')

/** By the code of an error: the exit code, and what to do next. */
const ADVICE = {
  WAYMARK_INVALID_ARGUMENT: [WRONG_USE, ''],
  WAYMARK_INVALID_ID: [WRONG_USE, 'waymark ls lists the sessions that there are.'],
  WAYMARK_NOT_FOUND: [WRONG_USE, 'waymark ls lists what there is.'],
  WAYMARK_EXISTS: [WRONG_USE, 'Choose another name, or remove that one first.'],
  WAYMARK_CONFLICT: [FAILED, 'Somebody changed it meanwhile: look again, and repeat the command.'],
  WAYMARK_LEASE_HELD: [FAILED, 'Stop that process, or wait until its lease is over.'],
  WAYMARK_LEASE_LOST: [FAILED, 'Nothing was written: stop that process, or wait until its lease is over.'],
  WAYMARK_AMBIGUOUS: [WRONG_USE, 'Write it as <session>/<checkpoint>.'],
  WAYMARK_CORRUPT: [
    FAILED,
    'waymark verify shows what is damaged, waymark recover restores the newest checkpoint that is whole.',
  ],
  WAYMARK_CHECKSUM_MISMATCH: [
    FAILED,
    'waymark verify shows what is damaged, waymark recover restores the newest checkpoint that is whole.',
  ],
  WAYMARK_NEWER_VERSION: [FAILED, 'Update waymark.'],
  WAYMARK_TOO_LARGE: [FAILED, 'It has more bytes than this command reads.'],
  WAYMARK_IO: [FAILED, 'What was there before is untouched.'],
  WAYMARK_OUTCOME_UNKNOWN: [FAILED, 'Look at what is there, or do it again.'],
  WAYMARK_INTERNAL: [FAILED, 'This is a defect in waymark: please report it.'],
}

/** The complaint about whatever was thrown. A command may know better what to do next: `advice`, by code. */
function explain(error, advice = {}) {
  if (error instanceof Complaint) return error
  const { code = '', message = String(error) } = error ?? {}
  if (code === 'ABORT_ERR') return new Complaint(`Stopped; everything is whole: ${error.whole}`, STOPPED)
  const [exitCode, next] = Object.hasOwn(ADVICE, code) ? ADVICE[code] : [FAILED, '']
  return new Complaint([sentence(plainWords(message)), advice[code] ?? next].filter(Boolean).join(' '), exitCode)
}

/** The store speaks to programmers: of arguments and methods, and in milliseconds. */
function plainWords(message) {
  return message
    .replace(/\. (?:Acquire|Choose|Give the import|Take|Wait) .*$/s, '')
    .replace(/\bfor another (\d+) ms\b/, (_, ms) => `for another ${duration(ms)}`)
    .replace(/^baseDir /, 'The location ')
}

function duration(ms) {
  return require('./terminal/units.js').duration(Number(ms))
}

function sentence(text) {
  return /[.!?…]$/.test(text) ? text : `${text}.`
}

/** Why something is damaged, without the path, which would leave no room for it. */
function reasonOf(error) {
  return error.replace(/^.* is damaged: /s, '')
}

module.exports = { explain, plainWords, reasonOf }
