// Reproducible random choices.

/** A generator of random numbers (mulberry32). The same seed gives the same sequence. */
export function randomFrom(seed) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (limit) => Math.floor(next() * limit)
  return {
    next,
    /** A whole number from 0 up to, but not including, `limit`. */
    below,
    /** A whole number from `low` up to and including `high`. */
    between: (low, high) => low + below(high - low + 1),
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)],
    /** The name of one of the entries of `{ name: weight }`. */
    weighted(weights) {
      const entries = Object.entries(weights)
      let rest = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of entries) {
        rest -= weight
        if (rest < 0) return name
      }
      return entries.at(-1)[0]
    },
    /** A seed for another generator. */
    fork: () => below(4_294_967_296),
  }
}
