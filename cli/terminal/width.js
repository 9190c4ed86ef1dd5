// How many columns a text takes up, shortening it to so many, and taking from it what a terminal would obey.

'use strict'

/**
 * Most of what is stored, and of what we draw: nothing in it is obeyed, and all of it is one column wide. Regular expressions with
 * Unicode properties take a millisecond to be made, and so are asked only about the rest.
 */
const PLAIN = /^[\u0020-\u007e\u2500-\u25fc…→✓✗]*$/

/** Control characters, and those that turn the direction of writing around. */
const OBEYED = /[\p{Cc}\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/gu

const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u
const EMOJI_SHAPE = '\ufe0f'

/** Ranges that East Asian terminals, and all others, show in two columns. */
const WIDE = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x2329, 0x232a],
  [0x23e9, 0x23f3],
  [0x25fd, 0x25fe],
  [0x2614, 0x2615],
  [0x2648, 0x2653],
  [0x26a1, 0x26a1],
  [0x26aa, 0x26ab],
  [0x26bd, 0x26c5],
  [0x26ce, 0x26ea],
  [0x26f2, 0x26fd],
  [0x2705, 0x2705],
  [0x270a, 0x270b],
  [0x2728, 0x2728],
  [0x274c, 0x2757],
  [0x2795, 0x27bf],
  [0x2b1b, 0x2b55],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18aff],
  [0x1b000, 0x1b2ff],
  [0x1f004, 0x1f004],
  [0x1f0cf, 0x1f0cf],
  [0x1f18e, 0x1f19a],
  [0x1f1e6, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f7e0, 0x1f7eb],
  [0x1f900, 0x1faff],
  [0x20000, 0x3fffd],
]

/** One line that no terminal takes for an order: line ends become spaces, what is left of control characters is spelt out. */
function clean(text) {
  const string = String(text)
  if (PLAIN.test(string)) return string
  return string
    .toWellFormed()
    .replaceAll(/[\t\r\n]+/g, ' ')
    .replaceAll(OBEYED, (character) => {
      const code = character.codePointAt(0)
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
    })
}

/** The columns of a clean text. Where terminals disagree, the larger number: a line that is too short does no harm. */
function widthOf(text) {
  if (PLAIN.test(text)) return text.length
  let width = 0
  let previous = 0
  for (const character of text) {
    const own = widthOfCharacter(character, previous)
    width += own
    previous = own || previous
  }
  return width
}

function widthOfCharacter(character, previous) {
  if (character === EMOJI_SHAPE) return previous === 1 ? 1 : 0
  if (character < '\u0300') return 1
  if (ZERO_WIDTH.test(character)) return 0
  const code = character.codePointAt(0)
  return code >= WIDE[0][0] && WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

/** As much of a clean text as fits, with an ellipsis if that is not all. Marks stay with the letter that they are on. */
function clip(text, columns, ellipsis = '…') {
  if (text.length <= columns && PLAIN.test(text)) return text
  if (widthOf(text) <= columns) return text
  const room = columns - ellipsis.length
  if (room < 0) return ellipsis.slice(0, Math.max(0, columns))
  let width = 0
  let previous = 0
  let end = 0
  for (const character of text) {
    const own = widthOfCharacter(character, previous)
    if (width + own > room) break
    width += own
    previous = own || previous
    end += character.length
  }
  return text.slice(0, end) + ellipsis
}

/** A clean text with spaces up to so many columns. */
function pad(text, columns, toTheRight = false) {
  const spaces = ' '.repeat(Math.max(0, columns - widthOf(text)))
  return toTheRight ? spaces + text : text + spaces
}

module.exports = { clean, clip, pad, widthOf }
