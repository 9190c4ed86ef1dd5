// How long the event loop is blocked.

import { fork } from 'node:child_process'

import { alternate, clear, line, start } from '../measure.mjs'
import { filled } from './create.mjs'

const TASKS = 1000
const ROUNDS = 100

export async function held() {
  const lines = []
  for (const [ascii, atMost] of [
    [true, 1.25],
    [false, 1.5],
  ]) {
    const worker = await start('waymark', { options: { keep: 10 } })
    const samples = await alternate(ROUNDS, {
      ours: async () => (await worker.ask('save', { tasks: TASKS, ascii })).heldMs,
      theirs: async () => (await worker.ask('stringify', { tasks: TASKS, ascii })).ms,
    })
    const text = ascii ? 'ASCII' : 'mixed text'
    lines.push(
      line(`event loop held by createCheckpoint, 1,000 tasks, ${text}, against one JSON.stringify`, samples, {
        atMost,
      }),
    )
    await worker.end()
  }
  const worker = await start('waymark', { options: { keep: 10 } })
  const save = (compress) => async () => (await worker.ask('save', { tasks: TASKS, compress })).heldMs
  const samples = await alternate(ROUNDS, { ours: save(true), theirs: save(false) })
  lines.push(line('event loop held when compressing, against when not, 1,000 tasks', samples, { atMost: 1.05 }))
  await worker.end()
  return lines
}

/** The longest time without a turn of the loop while a long list is read, against parsing one of its checkpoints. */
export async function stall() {
  const location = await filled(100, TASKS)
  const child = fork(new URL('../stall.mjs', import.meta.url), [location], { execArgv: ['--expose-gc'] })
  const samples = await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', (code) => reject(new Error(`stall.mjs ended with ${code}`)))
  })
  clear(location)
  // The first rounds warm the engine up.
  const { list, listWithoutGc, loop, loopWithoutGc, parse } = Object.fromEntries(
    Object.entries(samples).map(([name, values]) => [name, values.slice(values.length / 6)]),
  )
  const what = 'longest stall while listCheckpoints returns 100 checkpoints of 1.6 MB'
  return [
    line(
      `${what}, collector's pauses included, against one JSON.parse of one`,
      { ours: list, theirs: parse },
      { atMost: 2 },
      'the engine collects what it parsed: see the next lines',
    ),
    line(
      `${what}, collector's pauses left out, against one JSON.parse of one`,
      { ours: listWithoutGc, theirs: parse },
      { atMost: 2 },
    ),
    line(`${what}, against a loop that parses and keeps the same texts, one a turn`, { ours: list, theirs: loop }),
    line(`${what}, against that loop, collector's pauses left out on both sides`, {
      ours: listWithoutGc,
      theirs: loopWithoutGc,
    }),
  ]
}
