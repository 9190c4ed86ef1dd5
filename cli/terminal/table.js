// Tables that fit the terminal: columns shrink, then go, and no line wraps.

'use strict'

const { clean, clip, pad, widthOf } = require('./width.js')

const GAP = '  '

/**
 * The lines of a table.
 *
 * A column is `{ title, right?, least?, spare?, isLuxury? }`: numbers stand on the right; one that has a `least` may shrink to so
 * many columns; one that is `spare` may be left out, the greatest number first. What is a luxury goes before anything else
 * shrinks. A cell is a text, or `{ text, style?, painted? }`, where `painted` is the same text in several colours, for as long as
 * it need not be shortened.
 */
function table(columns, rows, terminal) {
  const cells = rows.map((row) => row.map(cellOf))
  const used = columns
    .map((column, index) => Object.assign({}, column, { index, width: 0 }))
    // What no row has anything to say about is not worth its place.
    .filter(({ index }) => cells.some((row) => row[index].text !== ''))
  for (const column of used) column.width = widest(column, cells)
  const fitted = fit(used, terminal.columns)
  const header = fitted.map(({ title, width, right }) => pad(clip(title, width), width, right)).join(GAP)
  const lines = cells.map((row) => lineOf(row, fitted, terminal))
  return [terminal.paint(header.trimEnd(), 'bold'), ...lines]
}

function cellOf(cell) {
  const { text, ...rest } = typeof cell === 'object' && cell !== null ? cell : { text: cell }
  return { ...rest, text: clean(text ?? '') }
}

function widest({ title, index }, cells) {
  return cells.reduce((width, row) => Math.max(width, widthOf(row[index].text)), widthOf(title))
}

function fit(columns, available) {
  let fitted = columns
  for (;;) {
    const excess = totalOf(fitted) - available
    if (excess <= 0) return fitted
    const [dispensable] = fitted.filter(({ spare }) => spare).toSorted((a, b) => b.spare - a.spare)
    const yielding = dispensable?.isLuxury ? [dispensable] : fitted
    const room = yielding.reduce((sum, column) => sum + spareWidth(column), 0)
    if (room >= excess) return shrunk(fitted, excess, yielding)
    if (!dispensable) return cut(fitted, available)
    fitted = fitted.filter((column) => column !== dispensable)
  }
}

function totalOf(columns) {
  return columns.reduce((sum, { width }) => sum + width, GAP.length * Math.max(0, columns.length - 1))
}

function spareWidth({ width, least = Infinity }) {
  return Math.max(0, width - least)
}

/** Of those that give way, the widest first. */
function shrunk(columns, excess, yielding) {
  for (let left = excess; left > 0; left -= 1) {
    const [widestOne] = yielding.filter((column) => spareWidth(column) > 0).toSorted((a, b) => b.width - a.width)
    widestOne.width -= 1
  }
  return columns
}

/** On a terminal too narrow for all of it, the first columns are what is left. */
function cut(columns, available) {
  const result = [...columns]
  for (const column of result) column.width = Math.min(column.width, column.least ?? column.width)
  while (result.length > 1 && totalOf(result) > available) result.pop()
  if (totalOf(result) > available) result[0].width = Math.max(1, available)
  return result
}

function lineOf(row, columns, terminal) {
  const parts = columns.map(({ index, width, right }, place) => {
    const { text, style, painted } = row[index]
    const shown = clip(text, width, terminal.glyphs.ellipsis)
    const spaces = ' '.repeat(Math.max(0, width - widthOf(shown)))
    const coloured = painted !== undefined && shown === text ? painted : terminal.paint(shown, style)
    if (right) return spaces + coloured
    // Nothing stands behind the last one.
    return place === columns.length - 1 ? coloured : coloured + spaces
  })
  return parts.join(GAP).trimEnd()
}

module.exports = { table }
