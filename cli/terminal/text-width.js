// How many columns a text takes up, shortening it to so many, and taking from it what a terminal would obey.

'use strict'

/**
 * Most of what is stored, and of what we draw: nothing in it is obeyed, and all of it is one column wide. Regular expressions with
 * Unicode properties take a millisecond to be made, and so are asked only about the rest.
 */
const PLAIN = /^[\u0020-\u007e\u2500-\u25fc…→✓✗]*$/

/** One line that no terminal takes for an order: line ends become spaces, what is left of control characters is spelt out. */
function clean(text) {
  const string = String(text)
  if (PLAIN.test(string)) return string
  return require('./letters.js').harmless(string.replaceAll(/[\t\r\n]+/g, ' '))
}

/** The columns of a clean text. Where terminals disagree, the larger number: a line that is too short does no harm. */
function widthOf(text) {
  if (PLAIN.test(text)) return text.length
  const { widthOfCharacter } = require('./letters.js')
  let width = 0
  let previous = 0
  for (const character of text) {
    const own = widthOfCharacter(character, previous)
    width += own
    previous = own || previous
  }
  return width
}

/** As much of a clean text as fits, with an ellipsis if that is not all. Marks stay with the letter that they are on. */
function clip(text, columns, ellipsis = '…') {
  if (text.length <= columns && PLAIN.test(text)) return text
  if (widthOf(text) <= columns) return text
  const room = columns - ellipsis.length
  if (room < 0) return ellipsis.slice(0, Math.max(0, columns))
  const { widthOfCharacter } = require('./letters.js')
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
