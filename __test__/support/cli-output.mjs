// Assertions about the output of the command.

import assert from 'node:assert/strict'

/** The terminal widths under test. */
export const WIDTHS = [80, 120]

const ESC = '\u001b'

/** Control characters other than line feeds. */
const CONTROL_CHARACTERS = /[^\P{Cc}\n]/u

/** Control sequences that the command may send: colours, movement, erasure, the cursor. */
const OWN_SEQUENCES = new RegExp(`${ESC}\\[(?:[\\d;]*[mABCDGHJK]|\\?(?:25|1049|2026)[hl])|[\\r\\n]`, 'g')

/** A progress line without a terminal. */
const PROGRESS = /^\w+ing .*: \d+ of \d+(?:, [\d.]+ \w+)?\n/gm

/** A sequence for a colour or a style. */
export const STYLED = new RegExp(`${ESC}\\[[\\d;]*m`)

/** A sequence for a colour. */
export const COLOURED = new RegExp(`${ESC}\\[(?:[\\d;]*;)?3[1-7]m`)

/** Asserts that a text has no control characters. */
export function assertPlain(text) {
  assert.doesNotMatch(text, CONTROL_CHARACTERS, JSON.stringify(text))
}

/** Asserts that output without a terminal has no control characters. */
export function assertNoEscapes({ stdout, stderr }) {
  assertPlain(stdout)
  assertPlain(stderr)
}

/** Asserts that no line wraps, that only known sequences were sent, and that the terminal is restored. */
export function assertFits({ raw, text, wrapped, isCursorHidden, isAlternate }) {
  // A word longer than a line, such as a path, has to wrap.
  const broken = wrapped.filter((line) => line.trim().includes(' '))
  assert.deepEqual(broken, [], text)
  assertPlain(raw.replaceAll(OWN_SEQUENCES, ''))
  assert.equal(isCursorHidden, false, 'the cursor is still hidden')
  assert.equal(isAlternate, false, 'the other screen is still shown')
}

/** Parses stdout, which must be one JSON document. */
export function jsonDocumentOf({ stdout, stderr }) {
  assert.notEqual(stdout, '', stderr)
  assert.ok(stdout.endsWith('\n'))
  assertPlain(stdout)
  return JSON.parse(stdout)
}

/**
 * Asserts a usage error: an empty stdout, and one line that names the error and the next step.
 * Indented lines with candidates or a plan may follow.
 */
export function assertRefused(outcome, what, { code = 2, next = /\bwaymark \w+|--\w+/, isLongWork = false } = {}) {
  const { stdout } = outcome
  // A long call may have printed progress lines.
  const stderr = isLongWork ? outcome.stderr.replaceAll(PROGRESS, '') : outcome.stderr
  assert.equal(outcome.code, code, stderr || stdout)
  assert.equal(stdout, '')
  assertPlain(stderr)
  const [first, ...others] = stderr.trimEnd().split('\n')
  assert.match(first, /^waymark: \S.*[.?]$/)
  assert.match(first, what)
  assert.match(stderr, next, 'it says what to do next')
  for (const line of others) assert.match(line, /^ {2,}\S/, 'what else there is stands below')
}
