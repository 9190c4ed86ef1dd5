// Work of which there is never more than one under way.

'use strict'

class OneAtATime {
  #run
  // A promise as long as one is under way; it never rejects.
  #underWay
  // What those who came meanwhile share: `options`, merged, and the promise of its `result`.
  #next

  /** `run(options)` returns a promise. */
  constructor(run) {
    this.#run = run
  }

  /** Runs at once, or once more after the one under way. */
  want(options) {
    // When one has ended and the next has not begun, `#next` alone is there.
    if (!this.#underWay && !this.#next) return this.#begin(options)
    this.#next ??= { options: {}, result: this.#underWay.then(() => this.#beginNext()) }
    Object.assign(this.#next.options, options)
    return this.#next.result
  }

  #beginNext() {
    const { options } = this.#next
    this.#next = undefined
    return this.#begin(options)
  }

  #begin(options) {
    // Before it runs: what it calls may want another.
    let end
    this.#underWay = new Promise((resolve) => {
      end = resolve
    })
    return this.#run(options).finally(() => {
      this.#underWay = undefined
      end()
    })
  }
}

module.exports = { OneAtATime }
