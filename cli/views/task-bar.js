// The bar of a session's tasks, with the number of completed ones.

'use strict'

const { bar } = require('../terminal/bar.js')

/** A table cell; empty if there are no tasks. */
function taskBar(terminal, columns, { total = 0, completed = 0, failed = 0, inProgress = 0 } = {}) {
  if (!(total > 0)) return { text: '' }
  const { text, styledText } = bar(terminal, columns, total, [
    { value: completed, style: 'green' },
    { value: failed, style: 'red', glyph: 'half' },
    { value: inProgress, style: 'yellow', glyph: 'half' },
  ])
  const counts = `${completed}/${total}`
  return { text: `${text} ${counts}`, styledText: `${styledText} ${counts}` }
}

module.exports = { taskBar }
