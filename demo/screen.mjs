// What a person sees of the demonstration: a live display on a terminal, plain lines in a pipe.

const BAR_WIDTH = 40
const CLEAR_LINE = '\u001b[2K'
const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'

/** `say(text)` is a line that stays; `show(event, seen)` is the state of the swarm. */
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
  let drawn = 0
  let lastCheckpoint = ''
  stream.write(HIDE_CURSOR)

  const erase = () => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A`)
    drawn = 0
  }
  const line = (text) => `${CLEAR_LINE}${text}\n`
  const say = (text) => {
    erase()
    stream.write(`\u001b[J${line(paint('1', text))}`)
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
      const agents = (seen.busy ?? []).map((task) => (task ?? 'idle').padEnd(13))
      const rows = [
        `  ${bar} ${seen.completed}/${seen.total} tasks, ${seen.inProgress} in progress`,
        `  ${paint('36', agents.slice(0, 6).join(''))}`,
        `  ${paint('36', agents.slice(6).join(''))}`,
        `  ${seen.checkpoints.length} checkpoints; ${lastCheckpoint}`,
      ]
      erase()
      stream.write(rows.map(line).join(''))
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
  return `${id}: ${size} durable after ${tookMs.toFixed(1)} ms, event loop held ${heldMs.toFixed(1)} ms`
}

function restoredText({ id, tookMs, completed, reset, total }) {
  return `Restored ${id} in ${tookMs.toFixed(1)} ms: ${completed} of ${total} tasks were done, ${reset} interrupted ones are reset`
}
