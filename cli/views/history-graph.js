// Draws a history like `git log --graph`: newest first, one lane per branch; lanes join at a common parent.

'use strict'

const COLOURS = ['cyan', 'green', 'magenta', 'blue', 'yellow', 'red']

/**
 * The rows of a history. An entry has a `key` and an optional `parent`. If the parent does not follow, the lane ends: stored data
 * may name one that was deleted, or one that is newer. A row is `{ pieces, entry?, isParentMissing? }`, where pieces are
 * `[text, style]`; a row without an entry only joins lanes.
 */
function graphRows(entries, glyphs, symbolOf) {
  const positions = new Map(entries.map(({ key }, index) => [key, index]))
  /** The key that each lane leads to; `undefined` for a free lane. */
  const lanes = []
  const rows = []
  for (const [index, entry] of entries.entries()) {
    const waiting = lanesOf(lanes, entry.key)
    const own = waiting[0] ?? freeLane(lanes)
    if (waiting.length > 1) {
      rows.push({ pieces: joint(lanes, waiting, glyphs) })
      for (const lane of waiting.slice(1)) lanes[lane] = undefined
      trim(lanes)
    }
    const continues = positions.get(entry.parent) > index
    lanes[own] = entry.key
    rows.push({
      pieces: lanes.map((key, lane) => [symbolIn(key, lane), COLOURS[lane % COLOURS.length]]),
      entry,
      isParentMissing: entry.parent !== undefined && !continues,
    })
    lanes[own] = continues ? entry.parent : undefined
    trim(lanes)

    function symbolIn(key, lane) {
      const text = lane === own ? symbolOf(entry) : key === undefined ? ' ' : glyphs.vertical
      return lane === lanes.length - 1 ? text : `${text} `
    }
  }
  return rows
}

function trim(lanes) {
  while (lanes.length > 0 && lanes.at(-1) === undefined) lanes.pop()
}

function lanesOf(lanes, key) {
  return [...lanes.keys()].filter((lane) => lanes[lane] === key)
}

function freeLane(lanes) {
  const free = lanes.indexOf(undefined)
  if (free >= 0) return free
  lanes.push(undefined)
  return lanes.length - 1
}

/** The row in which all lanes that lead to one entry join the first of them. */
function joint(lanes, waiting, glyphs) {
  const first = waiting[0]
  const last = waiting.at(-1)
  return [...lanes.keys()].map((lane) => {
    const colour = COLOURS[lane % COLOURS.length]
    const isBetween = lane >= first && lane < last
    const gap = lane === lanes.length - 1 ? '' : isBetween ? glyphs.horizontal : ' '
    return [shape(lane) + gap, colour]
  })

  function shape(lane) {
    if (lane === first) return glyphs.branch
    if (lane === last) return glyphs.corner
    if (lane < first || lane > last) return lanes[lane] === undefined ? ' ' : glyphs.vertical
    if (waiting.includes(lane)) return glyphs.up
    return lanes[lane] === undefined ? glyphs.horizontal : glyphs.cross
  }
}

module.exports = { graphRows }
