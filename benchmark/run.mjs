// Ratios, taken in one run: both sides of a line alternate, medians are compared, and the spread is shown.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'

import { CheckpointStore } from '../index.js'
import { PlainStore } from './plain-store.mjs'
import { makeState } from './states.mjs'

const scratch = mkdtempSync(join(tmpdir(), 'waymark-bench-'))
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }))

const PLAIN = { trigger: 'auto', includeContext: true, compress: false }
const TASKS = 1000
const lines = []

for (const ascii of [true, false]) {
  const state = makeState(TASKS, { ascii })
  const text = ascii ? 'ASCII' : 'mixed text'
  const store = await openStore(`held-${ascii}`, 100)
  await compare(`event loop held by createCheckpoint against one JSON.stringify, ${TASKS} tasks, ${text}`, 60, {
    ours: () => checkpoint(store, state).heldMs,
    theirs: () => {
      const started = performance.now()
      JSON.stringify(state)
      return performance.now() - started
    },
  })
}

for (const compress of [false, true]) {
  const state = makeState(TASKS)
  const options = { ...PLAIN, compress }
  const ours = await openStore(`ours-${compress}`, 100)
  const theirs = new PlainStore(join(scratch, `theirs-${compress}`), 100)
  for (const side of ['ours', 'theirs']) await fill(join(scratch, `${side}-${compress}`), state, options, 100)
  await compare(
    `createCheckpoint, 100 kept, ${compress ? 'gzip' : 'plain'}: ours, synced, against plain JavaScript, not synced`,
    9,
    {
      ours: () => checkpoint(ours, state, options).done,
      theirs: () => timed(() => theirs.createCheckpoint(state.session, state.agentStates, state.contextStore, options)),
    },
  )
}

{
  const state = makeState(TASKS)
  const few = await openStore('few', 1)
  const many = await openStore('many', 1000)
  await fill(join(scratch, 'many'), makeState(10), PLAIN, 1000)
  await compare('createCheckpoint with 1,000 kept against 1 kept, same state', 40, {
    ours: () => checkpoint(many, state).done,
    theirs: () => checkpoint(few, state).done,
  })
}

console.table(Object.fromEntries(lines.map(({ name, ...figures }) => [name, figures])))

async function openStore(name, limit) {
  const store = new CheckpointStore(join(scratch, name), limit)
  await store.initialize()
  return store
}

/** Makes `count` checkpoints in a directory; with our store for both sides, whose files are the same. */
async function fill(directory, state, options, count) {
  const store = new CheckpointStore(directory, { maxCheckpointsPerSession: count, durability: 'relaxed' })
  await store.initialize()
  for (let made = 0; made < count; made += 1) await checkpoint(store, state, options).done
}

function checkpoint(store, { session, agentStates, contextStore }, options = PLAIN) {
  const started = performance.now()
  const promise = store.createCheckpoint(session, agentStates, contextStore, options)
  const heldMs = performance.now() - started
  const done = promise.then((result) => {
    if (!result.success) throw new Error(result.error)
    return performance.now() - started
  })
  return { heldMs, done }
}

async function timed(work) {
  const started = performance.now()
  await work()
  return performance.now() - started
}

async function compare(name, rounds, sides) {
  const samples = { ours: [], theirs: [] }
  for (let round = 0; round < rounds + 2; round += 1) {
    for (const side of ['ours', 'theirs']) {
      const took = await sides[side]()
      // The first rounds warm up the engine and the file cache.
      if (round >= 2) samples[side].push(took)
    }
  }
  const [ours, theirs] = [summary(samples.ours), summary(samples.theirs)]
  lines.push({
    name,
    'ours, ms': ours.text,
    'theirs, ms': theirs.text,
    'ours / theirs': (ours.median / theirs.median).toFixed(2),
  })
}

function summary(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share) => sorted[Math.floor(share * (sorted.length - 1))]
  return { median: at(0.5), text: `${at(0.5).toFixed(2)} (${at(0.1).toFixed(2)}–${at(0.9).toFixed(2)})` }
}
