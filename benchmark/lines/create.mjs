// The cost of a durable checkpoint.

import { alternate, clear, line, newLocation, start } from '../measure.mjs'

const TASKS = 1000

/** Against a store in plain JavaScript, which reads every checkpoint that it keeps. */
export async function againstPlainJavaScript() {
  const lines = []
  for (const [compress, rounds] of [
    [false, 9],
    [true, 5],
  ]) {
    const keep = 100
    const [ourLocation, theirLocation] = [await filled(keep, TASKS, compress), await filled(keep, TASKS, compress)]
    const ours = await start('waymark', { location: ourLocation, options: { keep } })
    const theirs = await start('plain JavaScript', { location: theirLocation, options: { keep } })
    const save = (side) => async () => (await side.ask('save', { tasks: TASKS, compress })).ms
    const samples = await alternate(rounds, { ours: save(ours), theirs: save(theirs) }, { warmUp: 1 })
    const kind = compress ? 'gzip' : 'plain'
    const name = `createCheckpoint, 1,000 tasks, 100 kept, ${kind}: ours, durable, against plain JavaScript, not durable`
    lines.push(line(name, samples, { atLeast: 40 }))
    await Promise.all([ours.end(), theirs.end()])
  }
  return lines
}

/** The effect of the number of stored checkpoints. */
export async function againstFewKept() {
  const lines = []
  for (const tasks of [1000, 10]) {
    const many = await start('waymark', { location: await filled(10_000, 10), options: {} })
    const few = await start('waymark')
    const save = (side) => async () => (await side.ask('save', { tasks })).ms
    const samples = await alternate(tasks === 10 ? 300 : 80, { ours: save(many), theirs: save(few) })
    const name = `createCheckpoint with 10,000 kept against with none kept, ${tasks.toLocaleString('en')} tasks`
    lines.push(line(name, samples, { atMost: 1.15 }, 'nothing is removed on either side'))
    if (tasks === 1000) {
      // Caches must help after a pause too, not only in a burst.
      const rested = async (side) => {
        await new Promise((resolve) => setTimeout(resolve, 1200))
        return save(side)()
      }
      const sides = { ours: () => rested(many), theirs: () => rested(few) }
      lines.push(
        line(`${name}, 1.2 seconds after the last`, await alternate(10, sides, { warmUp: 1 }), { atMost: 1.15 }),
      )
    }
    await Promise.all([many.end(), few.end()])
  }
  return lines
}

/** Against the minimum cost of a durable write. */
export async function againstFloor() {
  const ours = await start('waymark')
  const theirs = await start('floor')
  const lines = []
  for (const [tasks, atMost, rounds] of [
    [1000, 1.15, 80],
    [10, 1.3, 300],
  ]) {
    const save = (side) => async () => (await side.ask('save', { tasks })).ms
    const samples = await alternate(rounds, { ours: save(ours), theirs: save(theirs) })
    const name = `createCheckpoint, durable, against the floor, ${tasks.toLocaleString('en')} tasks`
    lines.push(line(name, samples, { atMost }))
  }
  await Promise.all([ours.end(), theirs.end()])
  return lines
}

/** A directory with `count` checkpoints; the plain store reads the files of ours. */
export async function filled(count, tasks, compress = false) {
  const location = newLocation()
  clear(location)
  const maker = await start('waymark', { location, options: { durability: 'relaxed' } })
  await maker.ask('fill', { count, tasks, compress })
  await maker.stop()
  return location
}
