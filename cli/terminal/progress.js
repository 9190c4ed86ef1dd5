// How far long work is: a bar that is redrawn on a terminal and gone in the end, plain lines elsewhere.

'use strict'

const { bar } = require('./bar.js')
const { bytes } = require('./units.js')
const { clip, widthOf } = require('./width.js')

const BAR_WIDTH = 24
/** What is over before anybody could have read it is not drawn at all. */
const PATIENCE_MS = 150
const REDRAW_EVERY_MS = 50
const LINE_EVERY_MS = 1000
const PHASES = { check: ', checking' }

function progressOn(terminal, title) {
  return terminal.canRedraw ? new Bar(terminal, title) : new Lines(terminal, title)
}

/** `Verifying nightly: 40 of 120, 1.2 MB`; without the whole for as long as nobody knows it. */
function sentence(name, { title = name, phase, done, total, bytes: size }) {
  const whole = total > 0 ? ` of ${total}` : ''
  return `${title}${PHASES[phase] ?? ''}: ${done}${whole}${size > 0 ? `, ${bytes(size)}` : ''}`
}

class Bar {
  #terminal
  #title
  #began = performance.now()
  #drawnAt = -Infinity

  constructor(terminal, title) {
    this.#terminal = terminal
    this.#title = title
  }

  show(state) {
    const now = performance.now()
    if (now - this.#began < PATIENCE_MS || now - this.#drawnAt < REDRAW_EVERY_MS) return
    this.#drawnAt = now
    const { stream, columns, glyphs } = this.#terminal
    const { text, painted } = bar(this.#terminal, BAR_WIDTH, state.total, [{ value: state.done, style: 'green' }])
    // The last column stays free: some terminals wrap when it is written to.
    const room = columns - widthOf(text) - 2
    const words = this.#terminal.paint(sentence(this.#title, state))
    stream.write(
      room < 10 || !(state.total > 0)
        ? `\r\u001b[2K${clip(words, columns - 1, glyphs.ellipsis)}`
        : `\r\u001b[2K${painted} ${clip(words, room, glyphs.ellipsis)}`,
    )
  }

  clear() {
    this.#terminal.stream.write('\r\u001b[2K')
  }

  end() {
    if (this.#drawnAt > 0) this.clear()
  }
}

class Lines {
  #terminal
  #title
  #toldAt = performance.now()
  #told
  #last

  constructor(terminal, title) {
    this.#terminal = terminal
    this.#title = title
  }

  show(state) {
    this.#last = state
    if (performance.now() - this.#toldAt >= LINE_EVERY_MS) this.#tell(state)
  }

  clear() {}

  /** The last word is told, however quick it was. */
  end() {
    if (this.#last && this.#last !== this.#told) this.#tell(this.#last)
  }

  #tell(state) {
    this.#told = state
    this.#toldAt = performance.now()
    this.#terminal.stream.write(`${this.#terminal.paint(sentence(this.#title, state))}\n`)
  }
}

module.exports = { progressOn }
