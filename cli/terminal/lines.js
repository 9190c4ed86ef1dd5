// Lines made of pieces in several colours, none wider than the terminal.

'use strict'

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

/** A title over what follows, with an empty line before it; nothing if nothing follows. */
function section(terminal, title, lines) {
  return lines.length === 0 ? [] : ['', terminal.paint(title, 'bold'), ...lines]
}

module.exports = { flow, line, section }
