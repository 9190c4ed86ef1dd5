// Lines made of pieces in several colours, none wider than the terminal.

'use strict'

const { stripVTControlCharacters } = require('node:util')

const { clean, clip, widthOf } = require('./width.js')

/** One line of `[text, style]` pieces; what does not fit is cut off. */
function line(terminal, pieces) {
  const ellipsis = terminal.glyphs.ellipsis
  let room = terminal.columns
  let result = ''
  for (const [raw, style] of pieces) {
    const text = clean(raw ?? '')
    const width = widthOf(text)
    if (width > room) return result + terminal.paint(clip(text, room, ellipsis), style)
    result += terminal.paint(text, style)
    room -= width
  }
  return result
}

/** Facts side by side, in as many lines as they need. */
function flow(terminal, facts, indent = '  ') {
  const lines = []
  let pieces = ''
  // What goes to a file is read on some screen in the end.
  const columns = Math.min(terminal.columns, 120)
  for (const fact of facts) {
    const text = clean(fact)
    if (pieces !== '' && widthOf(indent) + widthOf(pieces) + 3 + widthOf(text) > columns) {
      lines.push(pieces)
      pieces = ''
    }
    pieces += pieces === '' ? text : `   ${text}`
  }
  if (pieces !== '') lines.push(pieces)
  return lines.map((text) => line(terminal, [[indent + text]]))
}

function foldedAll(lines, columns) {
  return lines.flatMap((text) => folded(text, columns))
}

/** Breaks a line between words where it is wider than the terminal; escape sequences of our own take up nothing. */
function folded(text, columns) {
  if (widthOf(stripVTControlCharacters(text)) <= columns) return [text]
  const [indent] = /^ */.exec(text)
  const lines = []
  let current = indent
  let width = indent.length
  for (const word of text.slice(indent.length).split(' ')) {
    const own = widthOf(stripVTControlCharacters(word))
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

/** A title over what follows, with an empty line before it; nothing if nothing follows. */
function section(terminal, title, lines) {
  return lines.length === 0 ? [] : ['', terminal.paint(title, 'bold'), ...lines]
}

module.exports = { flow, foldedAll, line, section }
