// The storage size of the checkpoints of a growing session, and the cost of creating and restoring them.

import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

import { alternate, line, start } from '../measure.mjs'

const PEER = 'langgraph-checkpoint-sqlite'

/** `largest` is how many times smaller than plain JSON all checkpoints together must be. */
const SCENARIOS = [
  { history: 'one percent', what: '1,000 tasks, 1 % of them changed', count: 100, smaller: 100 },
  { history: 'ten percent', what: '1,000 tasks, 10 % of them changed', count: 100 },
  { history: 'conversation', what: 'a conversation that grows by a turn', count: 200, smaller: 100 },
]

export async function storage() {
  const lines = []
  for (const scenario of SCENARIOS) lines.push(...(await linesOf(scenario)))
  return lines
}

async function linesOf({ history, what, count, smaller }) {
  const ours = (encoding) => start('waymark', { options: { encoding } })
  const sides = {
    json: await ours('json'),
    gzip: await ours('gzip'),
    zstd: await ours('zstd'),
    delta: await ours('delta'),
  }
  const peer = await start(PEER)
  const made = { json: [], gzip: [], zstd: [], delta: [], peer: [] }
  const save = (name, side) => async () => {
    const { ms, offThreadMs } = await side.ask('saveNext', { history })
    made[name].push({ ms, offThreadMs })
  }
  const saves = Object.entries({ ...sides, peer }).map(([name, side]) => [name, save(name, side)])
  await alternate(count, Object.fromEntries(saves), { warmUp: 0 })
  const bytes = Object.fromEntries(
    Object.entries({ ...sides, peer }).map(([name, side]) => [name, sizeOf(side.location)]),
  )
  const restores = await restoresOf(sides, count)
  await Promise.all([...Object.values(sides), peer].map((side) => side.end()))

  // The first ones warm the engine up.
  const ms = (name, of = 'ms') => made[name].slice(10).map((sample) => sample[of])
  const all = `${count} checkpoints of ${what} between two`
  const size = (name) => [bytes[name].stored / 1e6]
  const onDisk = `${(bytes.delta.onDisk / 1e6).toFixed(1)} MB in blocks of the file system, against ${(bytes.json.onDisk / 1e6).toFixed(0)} MB`
  return [
    sizeLine(`all ${all}: delta against plain`, size('delta'), size('json'), smaller && { atLeast: smaller }, onDisk),
    sizeLine(`all ${all}: delta against gzip`, size('delta'), size('gzip')),
    sizeLine(`all ${all}: delta against ${PEER} ${peer.version}`, size('delta'), size('peer'), { atLeast: 1 }),
    line(`one of ${all}, durable: delta against plain`, { ours: ms('delta'), theirs: ms('json') }, { atMost: 1 }),
    line(
      `one of ${all}, durable, off the JavaScript thread: delta against gzip`,
      { ours: ms('delta', 'offThreadMs'), theirs: ms('gzip', 'offThreadMs') },
      history === 'one percent' ? { atLeast: 5 } : {},
    ),
    line(`one of ${all}, durable: zstd against gzip`, { ours: ms('zstd'), theirs: ms('gzip') }),
    line(`one of ${all}, durable: delta against ${PEER}`, { ours: ms('delta'), theirs: ms('peer') }, { atLeast: 1 }),
    line(
      `restoring each of ${all}: delta against plain`,
      { ours: restores.delta, theirs: restores.json },
      { atMost: 1.2 },
    ),
  ]
}

/** Every checkpoint once, in an order without neighbours in a row. */
async function restoresOf({ json, delta }, count) {
  const samples = { json: [], delta: [] }
  for (let turn = 0; turn < count; turn += 1) {
    const number = (turn * 37) % count
    for (const [name, side] of turn % 2
      ? [
          ['json', json],
          ['delta', delta],
        ]
      : [
          ['delta', delta],
          ['json', json],
        ])
      samples[name].push((await side.ask('restoreOne', { number })).ms)
  }
  return samples
}

function sizeLine(name, ours, theirs, target = undefined, note = undefined) {
  return line(name, { ours, theirs }, { ...target }, note, 'MB')
}

/** The bytes of all files below a directory, and of their blocks. */
function sizeOf(directory) {
  const files = readdirSync(directory, { recursive: true }).map((name) => lstatSync(join(directory, name)))
  const own = files.filter((stat) => stat.isFile())
  return {
    stored: own.reduce((sum, { size }) => sum + size, 0),
    onDisk: own.reduce((sum, { blocks }) => sum + blocks * 512, 0),
  }
}
