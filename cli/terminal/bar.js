// A bar that shows parts of a whole.

'use strict'

/**
 * A bar as a table cell of `columns` columns. `parts` are `{ value, style, glyph }`; the remainder of `total` is empty. A part with a
 * value above 0 takes at least one column, if one is left.
 */
function bar(terminal, columns, total, parts) {
  const { glyphs } = terminal
  let left = columns
  const pieces = parts.map(({ value, style, glyph = 'full' }) => {
    const share = total > 0 && value > 0 ? Math.max(1, Math.floor((columns * value) / total)) : 0
    const length = Math.min(left, share)
    left -= length
    return { text: glyphs[glyph].repeat(length), style }
  })
  pieces.push({ text: glyphs.empty.repeat(left), style: 'dim' })
  return {
    text: pieces.map(({ text }) => text).join(''),
    styledText: pieces.map(({ text, style }) => terminal.paint(text, style)).join(''),
  }
}

module.exports = { bar }
