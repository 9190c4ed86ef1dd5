// How much of something is done, as a bar.

'use strict'

/**
 * A bar of so many columns as a table's cell. `parts` are `{ value, style, glyph }`; what they leave of `total` is empty. A part
 * that is not nothing is to be seen, as long as there is room.
 */
function bar(terminal, columns, total, parts) {
  const { glyphs } = terminal
  let room = columns
  const pieces = parts.map(({ value, style, glyph = 'full' }) => {
    const share = total > 0 && value > 0 ? Math.max(1, Math.floor((columns * value) / total)) : 0
    const length = Math.min(room, share)
    room -= length
    return { text: glyphs[glyph].repeat(length), style }
  })
  pieces.push({ text: glyphs.empty.repeat(room), style: 'dim' })
  return {
    text: pieces.map(({ text }) => text).join(''),
    painted: pieces.map(({ text, style }) => terminal.paint(text, style)).join(''),
  }
}

/** The bar of a session's tasks, with how many of how many are done. */
function taskBar(terminal, columns, { total = 0, completed = 0, failed = 0, inProgress = 0 } = {}) {
  if (!(total > 0)) return { text: '' }
  const { text, painted } = bar(terminal, columns, total, [
    { value: completed, style: 'green' },
    { value: failed, style: 'red', glyph: 'half' },
    { value: inProgress, style: 'yellow', glyph: 'half' },
  ])
  const counts = `${completed}/${total}`
  return { text: `${text} ${counts}`, painted: `${painted} ${counts}` }
}

module.exports = { bar, taskBar }
