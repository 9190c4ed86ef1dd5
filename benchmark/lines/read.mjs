// Reading: the newest, a restore, and a list.

import { alternate, line, start } from '../measure.mjs'
import { filled } from './create.mjs'

const TASKS = 1000

export async function latest() {
  const [ours, theirs] = await bothSaved()
  const read = (side) => async () => (await side.ask('latest')).ms
  const samples = await alternate(80, { ours: read(ours), theirs: read(theirs) })
  await Promise.all([ours.end(), theirs.end()])
  return [
    line('getLatestCheckpoint, checked, 1,000 tasks, against one read and one JSON.parse', samples, { atMost: 1.25 }),
  ]
}

export async function restore() {
  const [ours, theirs] = await bothSaved()
  const write = (side, atHand) => async () => (await side.ask('restore', { tasks: TASKS, atHand })).ms
  const {
    ours: own,
    floor,
    bare,
  } = await alternate(60, {
    ours: write(ours),
    floor: write(theirs, false),
    bare: write(theirs, true),
  })
  await Promise.all([ours.end(), theirs.end()])
  const what = 'restoreCheckpoint, checked, both files durable, 1,000 tasks, against one read and two floor writes'
  return [
    line(what, { ours: own, theirs: floor }, { atMost: 1.3 }),
    line(`${what} of ready texts, without their JSON.stringify`, { ours: own, theirs: bare }),
  ]
}

export async function list() {
  const count = 1000
  const location = await filled(count, TASKS)
  const ours = await start('waymark', { location })
  // It holds all checkpoints in memory at once.
  const theirs = await start('plain JavaScript', { location, heapMb: 14_000 })
  const read = (side, command) => async () => {
    const { ms, total } = await side.ask(command)
    if (total !== count) throw new Error(`${side.name} listed ${total} of ${count}`)
    return ms
  }
  const theirSamples = await alternate(2, { theirs: read(theirs, 'list') }, { warmUp: 0 })
  const ourSamples = await alternate(20, { ours: read(ours, 'listInfo') })
  await theirs.stop()
  await ours.end()
  return [
    line(
      'a list of 1,000 checkpoints of 1.6 MB each: listCheckpointInfo against listCheckpoints in plain JavaScript',
      { ...ourSamples, ...theirSamples },
      { atLeast: 1000 },
      'theirs: two rounds',
    ),
  ]
}

async function bothSaved() {
  const sides = [await start('waymark', { options: { keep: 100 } }), await start('floor')]
  for (const side of sides) await side.ask('save', { tasks: TASKS })
  return sides
}
