// A hundred sessions that save at the same moment, all of it durable.

import { PEER_NAMES } from '../contenders/index.mjs'
import { alternate, isReached, start, summary } from '../measure.mjs'

const SESSIONS = 100

export async function burst() {
  const lines = []
  const keep = 3
  const contenders = []
  const missing = []
  for (const name of ['waymark', ...PEER_NAMES]) {
    try {
      contenders.push(await start(name, { options: { keep } }))
    } catch (error) {
      missing.push({ name, reason: error.message })
    }
  }
  // What a file for each checkpoint costs without a single sync.
  const unsynced = await start('waymark', { options: { keep, durability: 'relaxed' } })
  for (const [tasks, rounds] of [
    [10, 15],
    [100, 9],
    [1000, 3],
  ]) {
    const sides = contenders.map((contender) => [
      contender.name,
      async () => (await contender.ask('burst', { tasks, sessions: SESSIONS })).ms,
    ])
    sides.push(['unsynced', async () => (await unsynced.ask('burst', { tasks, sessions: SESSIONS })).ms])
    const samples = await alternate(rounds, Object.fromEntries(sides), { warmUp: tasks === 1000 ? 1 : 2 })
    const what = `${SESSIONS} sessions of ${tasks.toLocaleString('en')} tasks checkpointing at once`
    const ours = perSecond(samples.waymark)
    for (const { name, version } of contenders.slice(1)) {
      const theirs = perSecond(samples[name])
      const ratio = ours.median / theirs.median
      const target = { atLeast: 1 }
      const label = `${what}: ours against ${name} ${version ?? ''}`.trimEnd()
      lines.push({ name: label, unit: 'per second', ours, theirs, ratio, target, reached: isReached(ratio, target) })
    }
    const theirs = perSecond(samples.unsynced)
    const label = `${what}: ours against the same files with nothing synced`
    lines.push({ name: label, unit: 'per second', ours, theirs, ratio: ours.median / theirs.median, target: {} })
    for (const { name, reason } of missing) lines.push({ name: `${what}: ours against ${name}`, missing: reason })
  }
  await Promise.all([unsynced, ...contenders].map((contender) => contender.end()))
  return lines
}

function perSecond(samples) {
  return summary(samples.map((ms) => (SESSIONS * 1000) / ms))
}
