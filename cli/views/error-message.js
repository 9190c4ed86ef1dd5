// Turns errors of the store into messages for a terminal, by their codes.

'use strict'

const { CliError, FAILED, USAGE_ERROR } = require('../cli-error.js')
const { commandLine } = require('../input/command-line.js')
const { isAccessDenied } = require('./damage.js')

const showDamage = (command) => `${command('verify')} shows what is damaged, and what to do.`

/** By error code: the exit code, and what to do next, which may name a command. */
const ADVICE = {
  WAYMARK_INVALID_ARGUMENT: [USAGE_ERROR, ''],
  WAYMARK_INVALID_ID: [USAGE_ERROR, (command) => `${command('ls')} lists the sessions.`],
  WAYMARK_NOT_FOUND: [USAGE_ERROR, (command) => `${command('ls')} lists the sessions.`],
  WAYMARK_EXISTS: [USAGE_ERROR, 'Choose another name, or remove the existing one first.'],
  WAYMARK_CONFLICT: [FAILED, 'It was changed concurrently: check it, and repeat the command.'],
  WAYMARK_LEASE_HELD: [FAILED, 'Stop that process, or wait until its lease has expired.'],
  WAYMARK_LEASE_LOST: [FAILED, 'Nothing was written: stop that process, or wait until its lease has expired.'],
  WAYMARK_BUSY: [FAILED, 'Resume or end the process that holds the lock, or repeat the command later.'],
  WAYMARK_AMBIGUOUS: [USAGE_ERROR, 'Write it as <session>/<checkpoint>.'],
  WAYMARK_CORRUPT: [FAILED, showDamage],
  WAYMARK_CHECKSUM_MISMATCH: [FAILED, showDamage],
  WAYMARK_NEWER_VERSION: [FAILED, 'Update waymark.'],
  WAYMARK_TOO_LARGE: [FAILED, 'It exceeds the size that this command reads.'],
  WAYMARK_IO: [FAILED, (_, error) => (isAccessDenied(error) ? 'Repeat it as the user that owns the store.' : '')],
  WAYMARK_OUTCOME_UNKNOWN: [FAILED, 'Check the result, or repeat the command.'],
  WAYMARK_INTERNAL: [FAILED, 'This is a defect in waymark: please report it.'],
}

/** The error to report. `advice` of the command, by code, replaces the general advice; `store` is the opened one, if any. */
function toCliError(error, advice = {}, store = undefined) {
  if (error instanceof CliError) return error
  const { code = '', message = String(error) } = error ?? {}
  const [exitCode, general] = Object.hasOwn(ADVICE, code) ? ADVICE[code] : [FAILED, '']
  const next = advice[code] ?? general
  const hint = typeof next === 'function' ? next((...words) => commandLine(store, ...words), error) : next
  return new CliError([asSentence(message), hint].filter(Boolean).join(' '), exitCode)
}

function asSentence(text) {
  return /[.!?…]$/.test(text) ? text : `${text}.`
}

module.exports = { asSentence, toCliError }
