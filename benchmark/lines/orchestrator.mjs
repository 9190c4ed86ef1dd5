// Other calls of an orchestrator: agent checkpoints, an overview of all sessions, a diff.

import { fork } from 'node:child_process'

import { alternate, clear, isReached, line, newLocation, start, summary } from '../measure.mjs'
import { filled } from './create.mjs'

/** An agent checkpoint, against the minimum cost of a durable write of its state. */
export async function agents() {
  const messages = 50
  const [ours, theirs] = [await start('waymark'), await start('floor')]
  const save = (side) => async () => (await side.ask('saveAgent', { messages })).ms
  const samples = await alternate(200, { ours: save(ours), theirs: save(theirs) })
  await Promise.all([ours.end(), theirs.end()])
  return [line('save of an agent with 50 messages, durable, against the floor', samples, { atMost: 1 })]
}

/** The overview of a thousand sessions, each time from a new process. */
export async function overview() {
  const [sessions, checkpoints, goal] = [1000, 100, 500]
  const location = newLocation()
  const maker = await start('waymark', { location, options: { durability: 'relaxed' } })
  await maker.ask('populate', { sessions, checkpoints })
  await maker.stop()
  const samples = []
  for (let round = 0; round < 5; round += 1) {
    const reader = await start('waymark', { location })
    const { ms, total } = await reader.ask('sessionsInfo')
    if (total !== sessions) throw new Error(`sessionsInfo() shows ${total} of ${sessions}`)
    samples.push(ms)
    await reader.stop()
  }
  clear(location)
  const ours = summary(samples)
  const ratio = ours.median / goal
  const target = { atMost: 1 }
  const name = 'sessionsInfo(), 1,000 sessions with 100 checkpoints each, new process, against half a second'
  return [{ name, unit: 'ms', ours, theirs: summary([goal]), ratio, target, reached: isReached(ratio, target) }]
}

/** How long the event loop is held while two checkpoints are compared. */
export async function diff() {
  const goal = 2
  const name = 'event loop held by diffCheckpoints, two checkpoints of 1,000 tasks, against 2 ms'
  if (!process.threadCpuUsage) return [{ name, missing: 'the time of a single thread needs Node.js 23.9 or later' }]
  const location = await filled(2, 1000)
  const child = fork(new URL('../diff.mjs', import.meta.url), [location])
  const { held } = await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', (code) => reject(new Error(`diff.mjs ended with ${code}`)))
  })
  clear(location)
  const [ours, theirs] = [summary(held), summary([goal])]
  const ratio = ours.median / goal
  const target = { atMost: 1 }
  return [{ name, unit: 'ms', ours, theirs, ratio, target, reached: isReached(ratio, target) }]
}
