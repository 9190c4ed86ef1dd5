// The alternate screen: redrawn without flicker, and restored on close.

'use strict'

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'

function screenOn(stream) {
  let isOpen = true
  stream.write(ENTER)
  return {
    /** Draws lines from the top; lines beyond the last row are left out. */
    draw(lines) {
      if (!isOpen) return
      const rows = lines.slice(0, Math.max(1, (stream.rows || 24) - 1))
      stream.write(`\u001b[H${rows.map((row) => `${row}\u001b[K\n`).join('')}\u001b[J`)
    },
    close() {
      if (isOpen) stream.write(LEAVE)
      isOpen = false
    },
  }
}

module.exports = { screenOn }
