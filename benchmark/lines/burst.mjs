// A hundred sessions save at the same moment, durably.

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
  // What a file for each checkpoint costs: against rows in one file, with the same syncs and nothing else, and without a
  // single sync.
  const bounds = [
    { name: 'ours in one SQLite file', worker: await start('waymark in SQLite', { options: { keep } }) },
    { name: 'the floor, which removes nothing', worker: await start('floor') },
    {
      name: 'the same files with nothing synced',
      worker: await start('waymark', { options: { keep, durability: 'relaxed' } }),
    },
  ]
  for (const [tasks, rounds] of [
    [10, 15],
    [100, 9],
    [1000, 3],
  ]) {
    const side = (name, worker) => [name, async () => (await worker.ask('burst', { tasks, sessions: SESSIONS })).ms]
    const sides = [
      ...contenders.map((contender) => side(contender.name, contender)),
      ...bounds.map(({ name, worker }) => side(name, worker)),
    ]
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
    for (const { name } of bounds) {
      const theirs = perSecond(samples[name])
      const label = `${what}: ours against ${name}`
      lines.push({ name: label, unit: 'per second', ours, theirs, ratio: ours.median / theirs.median, target: {} })
    }
    for (const { name, reason } of missing) lines.push({ name: `${what}: ours against ${name}`, missing: reason })
  }
  await Promise.all([...bounds.map(({ worker }) => worker), ...contenders].map((worker) => worker.end()))
  return lines
}

function perSecond(samples) {
  return summary(samples.map((ms) => (SESSIONS * 1000) / ms))
}
