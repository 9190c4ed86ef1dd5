// What a command is handed: what it was asked for, the store, and somebody to ask and to tell.

'use strict'

const { FAILED } = require('./complaint.js')
const { standard, terminalOf } = require('./terminal/terminal.js')

/** A server that does not answer is tried for a while: somebody who looks wants to know why nothing happens. */
const PATIENCE_MS = 2000

class Call {
  #stores = []
  #out
  #err

  constructor(spec, { words, options }) {
    this.spec = spec
    this.words = words
    this.options = options
  }

  get out() {
    this.#out ??= terminalOf(standard('stdout'))
    return this.#out
  }

  get err() {
    this.#err ??= terminalOf(standard('stderr'))
    return this.#err
  }

  /** Where the store is; `undefined` for the default of the class. */
  get location() {
    return this.words.location ?? this.options.store ?? (process.env.WAYMARK_STORE || undefined)
  }

  /** The store, open; `options` are those of `openStore()`. */
  store(options) {
    return this.storeAt(this.location, options)
  }

  async storeAt(location, options) {
    const { notOpened, openStore } = require('./location.js')
    const waiting = setTimeout(
      () => this.err.isTerminal && this.err.stream.write('Waiting for the store …\n'),
      PATIENCE_MS,
    )
    try {
      const store = await openStore(location, options)
      this.#stores.push(store)
      return store
    } catch (error) {
      throw notOpened(error, location, this.words)
    } finally {
      clearTimeout(waiting)
    }
  }

  /** The store that was opened first, if any was. */
  get opened() {
    return this.#stores[0]
  }

  /** Asks whether to go on, unless `--yes` said so; `lines` tell what would happen. */
  async mayGoOn(lines, question) {
    if (this.options.yes) return true
    const { ask } = require('./terminal/question.js')
    return ask(this, lines, question)
  }

  /** What a command gives back that was told not to go on. */
  declined() {
    return { exitCode: FAILED, json: { declined: true }, text: () => ['Nothing was changed.'] }
  }

  /** Long work: shows how far it is, and stops it when somebody wants that. See `work.js`. */
  async work(description, perform) {
    const { watched } = require('./work.js')
    return watched(this, description, perform)
  }

  async close() {
    await Promise.all(this.#stores.map((store) => store.close()))
  }
}

module.exports = { Call }
