// What must hold of everything that the command prints, whoever looks at it.

import assert from 'node:assert/strict'

/** The sizes of terminals that everything is looked at with. */
export const WIDTHS = [80, 120]

const ESC = '\u001b'

/** Control characters other than the end of a line: nothing of the kind belongs into a file, or into a name on a screen. */
const OBEYED = /[^\P{Cc}\n]/u

/** What changes colours, and what else a command may send to a terminal on purpose: to move, to erase, to hide the cursor. */
const OWN_SEQUENCES = new RegExp(`${ESC}\\[(?:[\\d;]*[mABCDGHJK]|\\?(?:25|1049|2026)[hl])|[\\r\\n]`, 'g')

/** How far long work is, where there is no terminal. */
const PROGRESS = /^\w+ing .*: \d+ of \d+(?:, [\d.]+ \w+)?\n/gm

/** Something is in another colour, bold, dim or the like. */
export const STYLED = new RegExp(`${ESC}\\[[\\d;]*m`)

/** Something is in another colour. */
export const COLOURED = new RegExp(`${ESC}\\[(?:[\\d;]*;)?3[1-7]m`)

/** Nothing in it would be obeyed by a terminal. */
export function assertPlain(text) {
  assert.doesNotMatch(text, OBEYED, JSON.stringify(text))
}

/** Something that ran without a terminal printed nothing that only a terminal understands. */
export function assertNoEscapes({ stdout, stderr }) {
  assertPlain(stdout)
  assertPlain(stderr)
}

/** No line was too wide, nothing but the command's own colours and movements got to the terminal, and it gave all back. */
export function assertFits({ raw, text, wrapped, isCursorHidden, isAlternate }) {
  // A word that is longer than a line, such as a path, cannot be helped.
  const broken = wrapped.filter((line) => line.trim().includes(' '))
  assert.deepEqual(broken, [], text)
  assertPlain(raw.replaceAll(OWN_SEQUENCES, ''))
  assert.equal(isCursorHidden, false, 'the cursor is still hidden')
  assert.equal(isAlternate, false, 'the other screen is still shown')
}

/** One document and nothing else; what is in it. */
export function documentIn({ stdout, stderr }) {
  assert.notEqual(stdout, '', stderr)
  assert.ok(stdout.endsWith('\n'))
  assertPlain(stdout)
  return JSON.parse(stdout)
}

/**
 * It was refused as wrong use: one line that says what is wrong and what to do next, and nothing for a program to read.
 * Candidates, or what would have been done, may stand below it.
 */
export function assertRefused(outcome, what, { code = 2, next = /\bwaymark \w+|--\w+/, isLongWork = false } = {}) {
  const { stdout } = outcome
  // Long work that has begun may have said how far it was, if it was long enough.
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
