// Measures, truncates and pads text by display columns, and escapes control characters.

'use strict'

/**
 * Text without control characters whose characters all take one column. Regular expressions with Unicode properties take a
 * millisecond to compile, so `char-width.js` is loaded only for other text.
 */
const PLAIN = /^[\u0020-\u007e\u2500-\u25fc…→✓✗]*$/

/** Makes text safe to print on one line: line ends become spaces, other control characters are escaped. */
function sanitize(text) {
  const string = String(text)
  if (PLAIN.test(string)) return string
  return require('./char-width.js').escapeControls(string.replaceAll(/[\t\r\n]+/g, ' '))
}

/** The columns of a sanitized text. Where terminals disagree, the larger number, so that no line wraps. */
function displayWidth(text) {
  if (PLAIN.test(text)) return text.length
  const { charWidth } = require('./char-width.js')
  let width = 0
  let previous = 0
  for (const character of text) {
    const own = charWidth(character, previous)
    width += own
    previous = own || previous
  }
  return width
}

/** Truncates a sanitized text, with an ellipsis. Combining marks stay with their character. */
function truncate(text, columns, ellipsis = '…') {
  if (text.length <= columns && PLAIN.test(text)) return text
  if (displayWidth(text) <= columns) return text
  const available = columns - ellipsis.length
  if (available < 0) return ellipsis.slice(0, Math.max(0, columns))
  const { charWidth } = require('./char-width.js')
  let width = 0
  let previous = 0
  let end = 0
  for (const character of text) {
    const own = charWidth(character, previous)
    if (width + own > available) break
    width += own
    previous = own || previous
    end += character.length
  }
  return text.slice(0, end) + ellipsis
}

/** Pads a sanitized text with spaces. */
function pad(text, columns, alignRight = false) {
  const spaces = ' '.repeat(Math.max(0, columns - displayWidth(text)))
  return alignRight ? spaces + text : text + spaces
}

module.exports = { displayWidth, pad, sanitize, truncate }
