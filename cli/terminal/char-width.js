// Characters outside the plain set: wide ones, combining marks, and control characters.

'use strict'

/** Control characters, and those that change the direction of writing. */
const CONTROL = /[\p{Cc}\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/gu

const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u
const EMOJI_VARIATION = '\ufe0f'

/** Ranges that every terminal shows in two columns. */
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

/** Replaces control characters by escape sequences such as `\x1b`. */
function escapeControls(text) {
  return text.toWellFormed().replaceAll(CONTROL, (character) => {
    const code = character.codePointAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
}

/** The columns of a character; `previous` are those of the character before it. */
function charWidth(character, previous) {
  if (character === EMOJI_VARIATION) return previous === 1 ? 1 : 0
  if (character < '\u0300') return 1
  if (ZERO_WIDTH.test(character)) return 0
  const code = character.codePointAt(0)
  return code >= WIDE[0][0] && WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

module.exports = { charWidth, escapeControls }
