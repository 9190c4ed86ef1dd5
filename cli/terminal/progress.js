// Progress of long tasks: a bar on a terminal, removed at the end; plain lines elsewhere.

'use strict'

const { bar } = require('./bar.js')
const { bytes } = require('./units.js')
const { truncate, displayWidth } = require('./text-width.js')

const BAR_WIDTH = 24
/** A task that ends earlier shows no bar. */
const BAR_DELAY_MS = 150
const REDRAW_INTERVAL_MS = 50
const LINE_INTERVAL_MS = 1000
const PHASES = { check: ', checking' }

function progressOn(terminal, title) {
  return terminal.canRedraw ? new Bar(terminal, title) : new Lines(terminal, title)
}

/** `Verifying nightly: 40 of 120, 1.2 MB`; without the total while it is unknown. */
function progressText(name, { title = name, phase, done, total, bytes: size }) {
  const ofTotal = total > 0 ? ` of ${total}` : ''
  return `${title}${PHASES[phase] ?? ''}: ${done}${ofTotal}${size > 0 ? `, ${bytes(size)}` : ''}`
}

class Bar {
  #terminal
  #title
  #startedAt = performance.now()
  #lastDrawn = -Infinity

  constructor(terminal, title) {
    this.#terminal = terminal
    this.#title = title
  }

  show(state) {
    const now = performance.now()
    if (now - this.#startedAt < BAR_DELAY_MS || now - this.#lastDrawn < REDRAW_INTERVAL_MS) return
    this.#lastDrawn = now
    const { stream, columns, glyphs } = this.#terminal
    const { text, styledText } = bar(this.#terminal, BAR_WIDTH, state.total, [{ value: state.done, style: 'green' }])
    // The last column stays free: some terminals wrap after writing to it.
    const available = columns - displayWidth(text) - 2
    const label = this.#terminal.paint(progressText(this.#title, state))
    stream.write(
      available < 10 || !(state.total > 0)
        ? `\r\u001b[2K${truncate(label, columns - 1, glyphs.ellipsis)}`
        : `\r\u001b[2K${styledText} ${truncate(label, available, glyphs.ellipsis)}`,
    )
  }

  clear() {
    this.#terminal.stream.write('\r\u001b[2K')
  }

  end() {
    if (this.#lastDrawn > 0) this.clear()
  }
}

class Lines {
  #terminal
  #title
  #lastPrinted = performance.now()
  #printed
  #last

  constructor(terminal, title) {
    this.#terminal = terminal
    this.#title = title
  }

  show(state) {
    this.#last = state
    if (performance.now() - this.#lastPrinted >= LINE_INTERVAL_MS) this.#print(state)
  }

  clear() {}

  /** Always prints the final state. */
  end() {
    if (this.#last && this.#last !== this.#printed) this.#print(this.#last)
  }

  #print(state) {
    this.#printed = state
    this.#lastPrinted = performance.now()
    this.#terminal.stream.write(`${this.#terminal.paint(progressText(this.#title, state))}\n`)
  }
}

module.exports = { progressOn }
