// Measures event-loop stalls while 100 checkpoints are read: a callback that is always pending records its delays.
// For comparison, a loop that parses the same texts, one in each turn, and keeps the results: garbage
// collection affects both alike.

import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { PerformanceObserver, performance } from 'node:perf_hooks'

import { CheckpointStore } from '../index.js'

const [location] = process.argv.slice(2)
const store = new CheckpointStore(location, Infinity)
await store.initialize()
const directory = join(location, 'bench', 'checkpoints')
const texts = readdirSync(directory)
  .filter((name) => name.endsWith('.json'))
  .map((name) => readFileSync(join(directory, name), 'utf8'))

const collections = []
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] })

const samples = { list: [], listWithoutGc: [], loop: [], loopWithoutGc: [], parse: [] }
for (let round = 0; round < 12; round += 1) {
  for (const [name, work] of [
    ['list', () => store.listCheckpoints('bench')],
    ['loop', parseAll],
  ]) {
    globalThis.gc()
    const { longest, longestWithoutGc } = await watch(work)
    samples[name].push(longest)
    samples[`${name}WithoutGc`].push(longestWithoutGc)
  }
  for (const text of texts.slice(0, 10)) {
    const started = performance.now()
    JSON.parse(text)
    samples.parse.push(performance.now() - started)
  }
}
process.send(samples)
process.disconnect()

async function parseAll() {
  const parsed = []
  for (const text of texts) {
    parsed.push(JSON.parse(text))
    await new Promise((resolve) => setImmediate(resolve))
  }
  return parsed
}

async function watch(work) {
  const turns = [performance.now()]
  let isOver = false
  const turn = () => {
    turns.push(performance.now())
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const kept = await work()
  isOver = true
  // The observer receives collections with a delay.
  await new Promise((resolve) => setTimeout(resolve, 50))
  const stalls = turns.slice(1).map((end, index) => ({ start: turns[index], end }))
  const lengths = stalls.map(({ start, end }) => end - start)
  const withoutGc = stalls.map(({ start, end }) => end - start - collected(start, end))
  return { longest: largest(lengths), longestWithoutGc: largest(withoutGc), kept: kept.length }
}

/** There may be more turns than a call takes arguments. */
function largest(numbers) {
  return numbers.reduce((most, number) => Math.max(most, number))
}

/** Milliseconds of garbage collection between two times. */
function collected(start, end) {
  const pauses = collections.map((pause) => {
    const overlap = Math.min(end, pause.startTime + pause.duration) - Math.max(start, pause.startTime)
    return Math.max(0, overlap)
  })
  return pauses.reduce((sum, pause) => sum + pause, 0)
}
