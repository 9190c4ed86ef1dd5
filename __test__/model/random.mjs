// Random numbers from a seed, so that every sequence can be repeated.

/** The mulberry32 generator. */
export class Random {
  #state

  constructor(seed) {
    this.#state = seed >>> 0
  }

  /** At least 0, less than 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** A whole number from `low` to `high`, both included. */
  between(low, high) {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  chance(probability) {
    return this.next() < probability
  }

  pick(values) {
    return values[Math.floor(this.next() * values.length)]
  }

  /** A key of `weights`, with its weight as the probability. */
  weighted(weights) {
    const entries = Object.entries(weights)
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [key, weight] of entries) {
      left -= weight
      if (left < 0) return key
    }
    return entries.at(-1)[0]
  }
}

/** Text that does not compress well, the same for the same seed. */
export function textOf(seed, length) {
  const random = new Random(seed)
  let text = ''
  while (text.length < length) text += Math.floor(random.next() * 2 ** 32).toString(36)
  return text.slice(0, length)
}
