// A small chart: one bar a line, with a name before it and a number behind it.

'use strict'

const { clip, pad, widthOf } = require('./width.js')

const LONGEST_BAR = 40

/** `rows` are `{ name, value, text }`; the greatest value has the longest bar. */
function chart(terminal, rows, style = 'cyan') {
  const names = Math.max(0, ...rows.map(({ name }) => widthOf(name)))
  const texts = Math.max(0, ...rows.map(({ text }) => widthOf(text)))
  const room = Math.max(4, Math.min(LONGEST_BAR, terminal.columns - names - texts - 6))
  const greatest = Math.max(1, ...rows.map(({ value }) => value))
  return rows.map(({ name, value, text }) => {
    const bar = barOf(terminal, (room * value) / greatest)
    const spaces = ' '.repeat(room - widthOf(bar))
    return `  ${terminal.paint(pad(name, names))}  ${terminal.paint(bar, style)}${spaces}  ${terminal.paint(clip(text, texts))}`
  })
}

/** So many columns, as exactly as the characters can say it. */
function barOf({ glyphs }, length) {
  const parts = glyphs.eighths.length
  const whole = Math.floor(length)
  const rest = glyphs.eighths[Math.floor((length - whole) * parts)]
  const bar = glyphs.full.repeat(whole) + rest
  // What is not nothing is to be seen.
  return bar === '' && length > 0 ? (glyphs.eighths[1] ?? glyphs.full) : bar
}

module.exports = { chart }
