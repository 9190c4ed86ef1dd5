// A bar chart: one line per bar, with its name and its number.

'use strict'

const { truncate, pad, displayWidth } = require('./text-width.js')

const MAX_BAR = 40

/** `rows` are `{ name, value, text }`; bars are scaled to the greatest value. */
function chart(terminal, rows, style = 'cyan') {
  const names = Math.max(0, ...rows.map(({ name }) => displayWidth(name)))
  const texts = Math.max(0, ...rows.map(({ text }) => displayWidth(text)))
  const barWidth = Math.max(4, Math.min(MAX_BAR, terminal.columns - names - texts - 6))
  const greatest = Math.max(1, ...rows.map(({ value }) => value))
  return rows.map(({ name, value, text }) => {
    const bar = barOf(terminal, (barWidth * value) / greatest)
    const spaces = ' '.repeat(barWidth - displayWidth(bar))
    return `  ${terminal.paint(pad(name, names))}  ${terminal.paint(bar, style)}${spaces}  ${terminal.paint(truncate(text, texts))}`
  })
}

/** A bar of a fractional length, in eighths of a column where the terminal has such characters. */
function barOf({ glyphs }, length) {
  const parts = glyphs.eighths.length
  const whole = Math.floor(length)
  const rest = glyphs.eighths[Math.floor((length - whole) * parts)]
  const bar = glyphs.full.repeat(whole) + rest
  // A length above 0 is always visible.
  return bar === '' && length > 0 ? (glyphs.eighths[1] ?? glyphs.full) : bar
}

module.exports = { chart }
