// Lines of styled pieces, cut or wrapped to the width of the terminal.

'use strict'

const { stripVTControlCharacters } = require('node:util')

const { sanitize, truncate, displayWidth } = require('./text-width.js')

/** One line of `[text, style]` pieces, truncated to the terminal. */
function line(terminal, pieces) {
  const ellipsis = terminal.glyphs.ellipsis
  let left = terminal.columns
  let result = ''
  for (const [raw, style] of pieces) {
    const text = sanitize(raw ?? '')
    const width = displayWidth(text)
    if (width > left) return result + terminal.paint(truncate(text, left, ellipsis), style)
    result += terminal.paint(text, style)
    left -= width
  }
  return result
}

/** Facts side by side, in as many lines as needed. */
function flow(terminal, facts, indent = '  ') {
  const lines = []
  let current = ''
  // A file has no width, but its lines should stay readable.
  const columns = Math.min(terminal.columns, 120)
  for (const fact of facts) {
    const text = sanitize(fact)
    if (current !== '' && displayWidth(indent) + displayWidth(current) + 3 + displayWidth(text) > columns) {
      lines.push(current)
      current = ''
    }
    current += current === '' ? text : `   ${text}`
  }
  if (current !== '') lines.push(current)
  return lines.map((text) => line(terminal, [[indent + text]]))
}

function wrapLines(lines, columns) {
  return lines.flatMap((text) => wrapLine(text, columns))
}

/** Wraps a line between words and keeps its indent; escape sequences have no width. */
function wrapLine(text, columns) {
  if (displayWidth(stripVTControlCharacters(text)) <= columns) return [text]
  const [indent] = /^ */.exec(text)
  const lines = []
  let current = indent
  let width = indent.length
  for (const word of text.slice(indent.length).split(' ')) {
    const own = displayWidth(stripVTControlCharacters(word))
    const isFirst = width === indent.length
    if (!isFirst && width + 1 + own > columns) {
      lines.push(current)
      current = indent + word
      width = indent.length + own
    } else {
      current += isFirst ? word : ` ${word}`
      width += own + (isFirst ? 0 : 1)
    }
  }
  return [...lines, current]
}

/** Lines below a title, with an empty line before it; nothing if there are no lines. */
function section(terminal, title, lines) {
  return lines.length === 0 ? [] : ['', terminal.paint(title, 'bold'), ...lines]
}

module.exports = { flow, wrapLines, line, section }
