// Tables that fit the terminal: columns shrink, then are dropped; no line wraps.

'use strict'

const { sanitize, truncate, pad, displayWidth } = require('./text-width.js')

const GAP = '  '

/**
 * The lines of a table.
 *
 * A column is `{ title, alignRight?, minWidth?, dropPriority?, dropFirst? }`. A column with a `minWidth` may shrink to it. Columns
 * with a `dropPriority` may be dropped, the greatest number first; those with `dropFirst` before any column shrinks. A cell is a text,
 * or `{ text, style?, styledText? }`, where `styledText` is the text in several styles; a truncated cell does not use it.
 */
function table(columns, rows, terminal) {
  const cells = rows.map((row) => row.map(cellOf))
  const used = columns
    .map((column, index) => Object.assign({}, column, { index, width: 0 }))
    // Leave out columns without any content.
    .filter(({ index }) => cells.some((row) => row[index].text !== ''))
  for (const column of used) column.width = widestCell(column, cells)
  const fitted = fit(used, terminal.columns)
  const header = fitted.map(({ title, width, alignRight }) => pad(truncate(title, width), width, alignRight)).join(GAP)
  const lines = cells.map((row) => lineOf(row, fitted, terminal))
  return [terminal.paint(header.trimEnd(), 'bold'), ...lines]
}

function cellOf(cell) {
  const { text, ...rest } = typeof cell === 'object' && cell !== null ? cell : { text: cell }
  return { ...rest, text: sanitize(text ?? '') }
}

function widestCell({ title, index }, cells) {
  return cells.reduce((width, row) => Math.max(width, displayWidth(row[index].text)), displayWidth(title))
}

function fit(columns, available) {
  let fitted = columns
  for (;;) {
    const excess = totalOf(fitted) - available
    if (excess <= 0) return fitted
    const [droppable] = fitted
      .filter(({ dropPriority }) => dropPriority)
      .toSorted((a, b) => b.dropPriority - a.dropPriority)
    const shrinkable = droppable?.dropFirst ? [droppable] : fitted
    const spare = shrinkable.reduce((sum, column) => sum + spareWidth(column), 0)
    if (spare >= excess) return shrink(fitted, excess, shrinkable)
    if (!droppable) return cutOff(fitted, available)
    fitted = fitted.filter((column) => column !== droppable)
  }
}

function totalOf(columns) {
  return columns.reduce((sum, { width }) => sum + width, GAP.length * Math.max(0, columns.length - 1))
}

function spareWidth({ width, minWidth = Infinity }) {
  return Math.max(0, width - minWidth)
}

/** Shrinks the widest of the shrinkable columns, one display column at a time. */
function shrink(columns, excess, shrinkable) {
  for (let left = excess; left > 0; left -= 1) {
    const [widest] = shrinkable.filter((column) => spareWidth(column) > 0).toSorted((a, b) => b.width - a.width)
    widest.width -= 1
  }
  return columns
}

/** For a terminal that is too narrow: keeps the first columns that fit. */
function cutOff(columns, available) {
  const result = [...columns]
  for (const column of result) column.width = Math.min(column.width, column.minWidth ?? column.width)
  while (result.length > 1 && totalOf(result) > available) result.pop()
  if (totalOf(result) > available) result[0].width = Math.max(1, available)
  return result
}

function lineOf(row, columns, terminal) {
  const parts = columns.map(({ index, width, alignRight }, position) => {
    const { text, style, styledText } = row[index]
    const shown = truncate(text, width, terminal.glyphs.ellipsis)
    const spaces = ' '.repeat(Math.max(0, width - displayWidth(shown)))
    const coloured = styledText !== undefined && shown === text ? styledText : terminal.paint(shown, style)
    if (alignRight) return spaces + coloured
    // No trailing spaces after the last column.
    return position === columns.length - 1 ? coloured : coloured + spaces
  })
  return parts.join(GAP).trimEnd()
}

module.exports = { table }
