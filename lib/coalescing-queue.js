// A queue of length one: requests that arrive during a run share the next run.

'use strict'

class CoalescingQueue {
  #run
  // Pending while a run is active; never rejects.
  #active
  // The run that follows the active one: the merged `options` of its requests, and the promise of its `result`.
  #next

  /** `run(options)` returns a promise. */
  constructor(run) {
    this.#run = run
  }

  /** Starts a run, or joins the one that follows the active run. */
  request(options) {
    // Between two runs `#active` is unset, but `#next` is still set.
    if (!this.#active && !this.#next) return this.#start(options)
    this.#next ??= { options: {}, result: this.#active.then(() => this.#startNext()) }
    Object.assign(this.#next.options, options)
    return this.#next.result
  }

  #startNext() {
    const { options } = this.#next
    this.#next = undefined
    return this.#start(options)
  }

  #start(options) {
    // Set before `run` is called: `run` may request another one.
    let finish
    this.#active = new Promise((resolve) => {
      finish = resolve
    })
    return this.#run(options).finally(() => {
      this.#active = undefined
      finish()
    })
  }
}

module.exports = { CoalescingQueue }
