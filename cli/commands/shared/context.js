// The context that a command runs in: its arguments and options, the stores that it opens, and the terminal.

'use strict'

const { FAILED } = require('../../cli-error.js')
const { standardStream, terminalOf } = require('../../terminal/terminal.js')

/** A server may take long to answer; after this time the user is told what the command is waiting for. */
const OPEN_NOTICE_MS = 2000

class CommandContext {
  #stores = []
  #out
  #err

  constructor(spec, { args, options }) {
    this.spec = spec
    this.args = args
    this.options = options
  }

  get out() {
    this.#out ??= terminalOf(standardStream('stdout'))
    return this.#out
  }

  get err() {
    this.#err ??= terminalOf(standardStream('stderr'))
    return this.#err
  }

  /** The location of the store; `undefined` for the default of the class. */
  get location() {
    return this.args.location ?? this.options.store ?? (process.env.WAYMARK_STORE || undefined)
  }

  /** Opens the store; `options` are those of `openStore()`. */
  store(options) {
    return this.storeAt(this.location, options)
  }

  async storeAt(location, options) {
    const { openStore, toOpenError } = require('../../input/location.js')
    const notice = setTimeout(
      () => this.err.isTerminal && this.err.stream.write('Waiting for the store …\n'),
      OPEN_NOTICE_MS,
    )
    try {
      const store = await openStore(location, options)
      this.#stores.push(store)
      return store
    } catch (error) {
      throw toOpenError(error, location, this.args)
    } finally {
      clearTimeout(notice)
    }
  }

  /** The store that was opened first, if any. */
  get openedStore() {
    return this.#stores[0]
  }

  /** Asks for confirmation unless `--yes` was given; `lines` describe the planned change. */
  async confirm(lines, question) {
    if (this.options.yes) return true
    const { ask } = require('../../terminal/question.js')
    return ask(this, lines, question)
  }

  /** The result of a command whose confirmation was declined. */
  declined() {
    return { exitCode: FAILED, json: { declined: true }, text: () => ['Nothing was changed.'] }
  }

  /** Runs a long task with progress and cancellation: see `long-task.js`. */
  async runTask(description, task) {
    const { runTask } = require('./long-task.js')
    return runTask(this, description, task)
  }

  async close() {
    await Promise.all(this.#stores.map((store) => store.close()))
  }
}

module.exports = { CommandContext }
