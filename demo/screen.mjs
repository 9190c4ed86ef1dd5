// The output of the demonstration: a live display on a terminal, plain lines in a pipe.

const BAR_WIDTH = 40
const CLEAR_LINE = '\u001b[2K'
const CLEAR_BELOW = '\u001b[J'
const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'

/** `print(text)` adds a permanent line; `show(event, state)` updates the state of the swarm. */
export function openScreen(stream) {
  return stream.isTTY ? liveScreen(stream) : plainLines(stream)
}

function plainLines(stream) {
  const print = (text) => stream.write(`${text}\n`)
  let nextTenth = 0
  return {
    print,
    show(event, state) {
      if (event.kind === 'restored') print(restoredText(event))
      if (event.kind === 'checkpoint') print(`  ${checkpointText(event)}`)
      if (event.kind === 'progress') {
        const tenth = Math.floor((10 * state.completed) / state.total)
        if (tenth !== nextTenth) print(`  ${state.completed} of ${state.total} tasks done`)
        nextTenth = tenth
      }
    },
    close() {},
  }
}

function liveScreen(stream) {
  const colour = stream.hasColors() && !process.env.NO_COLOR
  const paint = (code, text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  // No line may wrap: the cursor moves up by as many rows as there are lines.
  const clip = (text) => text.slice(0, (stream.columns ?? 80) - 3)
  let drawn = 0
  let lastCheckpoint = ''
  stream.write(HIDE_CURSOR)

  const moveUp = () => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A`)
    drawn = 0
  }
  const print = (text) => {
    moveUp()
    stream.write(`${CLEAR_BELOW}${paint('1', text)}\n`)
  }
  return {
    print,
    show(event, state) {
      if (event.kind === 'restored') return print(restoredText(event))
      if (event.kind === 'checkpoint') lastCheckpoint = checkpointText(event)
      if (!state.total) return undefined
      const filled = Math.round((BAR_WIDTH * state.completed) / state.total)
      const running = Math.min(BAR_WIDTH - filled, Math.ceil((BAR_WIDTH * state.inProgress) / state.total))
      const rest = BAR_WIDTH - filled - running
      const bar = paint('32', '█'.repeat(filled)) + paint('33', '▓'.repeat(running)) + paint('90', '░'.repeat(rest))
      const agents = state.busy.map((task) => (task ?? 'idle').padEnd(13))
      const half = Math.ceil(agents.length / 2)
      const rows = [
        `  ${bar} ${state.completed}/${state.total} tasks`,
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

function checkpointText({ id, tookMs, blockedMs, sizeBytes }) {
  const size = `${(sizeBytes / 1024).toFixed(0)} KB`
  return `${id}: ${size}, durable after ${tookMs.toFixed(1)} ms, event loop blocked ${blockedMs.toFixed(1)} ms`
}

function restoredText({ id, tookMs, completed, reset, total }) {
  return `Restored ${id} in ${tookMs.toFixed(1)} ms: ${completed}/${total} done, ${reset} interrupted reset`
}
