// The cost of one durable checkpoint for all contenders, by the size of the state and by the number kept.

import { PEER_NAMES } from '../contenders/index.mjs'
import { alternate, start, summary } from '../measure.mjs'
import { filled } from './create.mjs'

export const SIZES = [10, 100, 1000, 10_000]
const KEPT = [0, 10, 100, 1000, 10_000]

/** Milliseconds until a checkpoint is durable. */
export async function bySize() {
  const sides = []
  const missing = []
  for (const name of ['waymark', 'floor', 'plain JavaScript', ...PEER_NAMES]) {
    try {
      sides.push(await start(name, { options: { keep: 5 } }))
    } catch (error) {
      missing.push({ name, reason: error.message })
    }
  }
  const table = sides.map(({ name, version }) => ({ name, version, costs: {} }))
  for (const tasks of SIZES) {
    const samples = await alternate(
      { 10: 60, 100: 40, 1000: 20, 10_000: 5 }[tasks],
      Object.fromEntries(sides.map((side) => [side.name, async () => (await side.ask('save', { tasks })).ms])),
    )
    for (const side of sides) {
      if (!(await side.ask('isIntact', { tasks }))) throw new Error(`${side.name} returned another state`)
    }
    for (const row of table) row.costs[tasks] = summary(samples[row.name])
  }
  await Promise.all(sides.map((side) => side.end()))
  return { table, missing }
}

/** The same with 1,000 tasks, by the number of stored checkpoints; the plain store only up to a bearable number. */
export async function byNumberKept() {
  const tasks = 1000
  const rows = [
    { name: 'waymark', costs: {}, most: Infinity },
    { name: 'plain JavaScript', costs: {}, most: 100 },
  ]
  for (const kept of KEPT) {
    for (const row of rows) {
      if (kept > row.most) continue
      // Beyond the limit of the plain store small checkpoints suffice: ours reads only their names.
      const location = kept === 0 ? undefined : await filled(kept, kept > 100 ? 10 : tasks)
      const side = await start(row.name, { location, options: { keep: Math.max(kept, 1) } })
      const rounds = row.name === 'waymark' ? 20 : 5
      const samples = await alternate(rounds, { it: async () => (await side.ask('save', { tasks })).ms }, { warmUp: 2 })
      row.costs[kept] = summary(samples.it)
      await side.end()
    }
  }
  return rows.map(({ name, costs }) => ({ name, costs }))
}
