// The display of the demonstration: live on a terminal, plain lines in a pipe.

const BAR_WIDTH = 40
const CLEAR_LINE = '\u001b[2K'
const CLEAR_BELOW = '\u001b[J'
const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'

/** `say(text)` prints a permanent line; `show(event, seen)` updates the state of the swarm. */
export function openScreen(stream) {
  return stream.isTTY ? liveScreen(stream) : plainLines(stream)
}

function plainLines(stream) {
  const say = (text) => stream.write(`${text}\n`)
  let nextTenth = 0
  return {
    say,
    show(event, seen) {
      if (event.kind === 'restored') say(restoredText(event))
      if (event.kind === 'checkpoint') say(`  ${checkpointText(event)}`)
      if (event.kind === 'progress') {
        const tenth = Math.floor((10 * seen.completed) / seen.total)
        if (tenth !== nextTenth) say(`  ${seen.completed} of ${seen.total} tasks done`)
        nextTenth = tenth
      }
    },
    close() {},
  }
}

function liveScreen(stream) {
  const colour = stream.hasColors() && !process.env.NO_COLOR
  const paint = (code, text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  // A line that wraps would take two rows, and moving up by one line would miss one of them.
  const clip = (text) => text.slice(0, (stream.columns ?? 80) - 3)
  let drawn = 0
  let lastCheckpoint = ''
  stream.write(HIDE_CURSOR)

  const moveUp = () => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A`)
    drawn = 0
  }
  const say = (text) => {
    moveUp()
    stream.write(`${CLEAR_BELOW}${paint('1', text)}\n`)
  }
  return {
    say,
    show(event, seen) {
      if (event.kind === 'restored') return say(restoredText(event))
      if (event.kind === 'checkpoint') lastCheckpoint = checkpointText(event)
      if (!seen.total) return undefined
      const filled = Math.round((BAR_WIDTH * seen.completed) / seen.total)
      const running = Math.min(BAR_WIDTH - filled, Math.ceil((BAR_WIDTH * seen.inProgress) / seen.total))
      const rest = BAR_WIDTH - filled - running
      const bar = paint('32', '█'.repeat(filled)) + paint('33', '▓'.repeat(running)) + paint('90', '░'.repeat(rest))
      const agents = seen.busy.map((task) => (task ?? 'idle').padEnd(13))
      const half = Math.ceil(agents.length / 2)
      const rows = [
        `  ${bar} ${seen.completed}/${seen.total} tasks`,
        `  ${paint('36', clip(agents.slice(0, half).join('')))}`,
        `  ${paint('36', clip(agents.slice(half).join('')))}`,
        clip(`  ${lastCheckpoint}`),
      ]
      moveUp()
      stream.write(rows.map((row) => `${CLEAR_LINE}${row}\n`).join(''))
      drawn = rows.length
      return undefined
    },
    close() {
      stream.write(SHOW_CURSOR)
    },
  }
}

function checkpointText({ id, tookMs, heldMs, sizeBytes }) {
  const size = `${(sizeBytes / 1024).toFixed(0)} KB`
  return `${id}: ${size}, durable after ${tookMs.toFixed(1)} ms, loop held ${heldMs.toFixed(1)} ms`
}

function restoredText({ id, tookMs, completed, reset, total }) {
  return `Restored ${id} in ${tookMs.toFixed(1)} ms: ${completed}/${total} done, ${reset} interrupted reset`
}
