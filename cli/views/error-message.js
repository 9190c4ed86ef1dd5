// What errors of the store mean for somebody at a terminal, and what they can do next.

'use strict'

const { commandLine } = require('./command-line.js')
const { Complaint, FAILED, STOPPED, WRONG_USE } = require('./complaint.js')

/** By the code of an error: the exit code, and what to do next, which may name a command. */
const ADVICE = {
  WAYMARK_INVALID_ARGUMENT: [WRONG_USE, ''],
  WAYMARK_INVALID_ID: [WRONG_USE, (command) => `${command('ls')} lists the sessions that there are.`],
  WAYMARK_NOT_FOUND: [WRONG_USE, (command) => `${command('ls')} lists what there is.`],
  WAYMARK_EXISTS: [WRONG_USE, 'Choose another name, or remove that one first.'],
  WAYMARK_CONFLICT: [FAILED, 'Somebody changed it meanwhile: look again, and repeat the command.'],
  WAYMARK_LEASE_HELD: [FAILED, 'Stop that process, or wait until its lease is over.'],
  WAYMARK_LEASE_LOST: [FAILED, 'Nothing was written: stop that process, or wait until its lease is over.'],
  WAYMARK_BUSY: [FAILED, 'Resume or end the process that holds the lock, or repeat the command when it is done.'],
  WAYMARK_AMBIGUOUS: [WRONG_USE, 'Write it as <session>/<checkpoint>.'],
  WAYMARK_CORRUPT: [FAILED, (command) => `${command('verify')} shows what is damaged, and what helps.`],
  WAYMARK_CHECKSUM_MISMATCH: [FAILED, (command) => `${command('verify')} shows what is damaged, and what helps.`],
  WAYMARK_NEWER_VERSION: [FAILED, 'Update waymark.'],
  WAYMARK_TOO_LARGE: [FAILED, 'It has more bytes than this command reads.'],
  WAYMARK_IO: [FAILED, (_, message) => (/\b(?:EACCES|EPERM)\b/.test(message) ? 'Look as the user that owns it.' : '')],
  WAYMARK_OUTCOME_UNKNOWN: [FAILED, 'Look at what is there, or do it again.'],
  WAYMARK_INTERNAL: [FAILED, 'This is a defect in waymark: please report it.'],
}

/**
 * The complaint about whatever was thrown. A command may know better what to do next: `advice`, by code. `store` is what it works
 * on, if it got that far.
 */
function explain(error, advice = {}, store = undefined) {
  if (error instanceof Complaint) return error
  const { code = '', message = String(error) } = error ?? {}
  if (code === 'ABORT_ERR') return new Complaint(`Stopped; everything is whole: ${error.whole}`, STOPPED)
  const [exitCode, next] = Object.hasOwn(ADVICE, code) ? ADVICE[code] : [FAILED, '']
  const wanted = advice[code] ?? next
  const advised = typeof wanted === 'function' ? wanted((...words) => commandLine(store, ...words), message) : wanted
  return new Complaint([sentence(plainWords(message)), advised].filter(Boolean).join(' '), exitCode)
}

/** The store speaks to programmers: of arguments and methods, and in milliseconds. */
function plainWords(message) {
  return message
    .replace(
      /\. (?:If that process is stopped|If it is stopped|Its disk may be slow|Acquire|Choose|Give the import|Take|Wait) .*$/s,
      '',
    )
    .replace(/\bfor another (\d+) ms\b/, (_, ms) => `for another ${duration(ms)}`)
    .replace(/^baseDir /, 'The location ')
}

function duration(ms) {
  return require('./terminal/units.js').duration(Number(ms))
}

function sentence(text) {
  return /[.!?…]$/.test(text) ? text : `${text}.`
}

module.exports = { explain, plainWords }
