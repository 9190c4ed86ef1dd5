// The method: contenders in separate processes, alternating sides, medians, and the spread.

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const scratch = mkdtempSync(join(tmpdir(), 'waymark-bench-'))
const workers = new Set()
process.on('exit', () => {
  for (const worker of workers) worker.kill()
  rmSync(scratch, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

let directories = 0

/** A new directory, which is removed at the end of the run. */
export function newLocation() {
  directories += 1
  return join(scratch, String(directories))
}

export function clear(location) {
  rmSync(location, { recursive: true, force: true })
}

/** Starts a contender. Its commands are those of worker.mjs. */
export async function start(name, { location = newLocation(), options = {}, heapMb } = {}) {
  const worker = fork(
    fileURLToPath(new URL('worker.mjs', import.meta.url)),
    [name, location, JSON.stringify(options)],
    {
      execArgv: ['--expose-gc', ...(heapMb ? [`--max-old-space-size=${heapMb}`] : [])],
      // Packages of the contenders may print; stdout is for the table.
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    },
  )
  workers.add(worker)
  const ask = (command, details = {}) =>
    new Promise((resolve, reject) => {
      const died = (code, signal) => reject(new Error(`${name} ended in ${command}: ${signal ?? code}`))
      worker.once('exit', died)
      worker.once('message', ({ answer, error }) => {
        worker.off('exit', died)
        if (error === undefined) resolve(answer)
        else reject(new Error(error))
      })
      worker.send({ command, ...details })
    })
  const stop = () =>
    new Promise((resolve) => {
      workers.delete(worker)
      worker.once('exit', resolve)
      worker.disconnect()
    })
  try {
    const version = await ask('open')
    return {
      name,
      location,
      version,
      ask,
      /** Ends the process. */
      async stop() {
        await ask('close')
        await stop()
      },
      /** Ends the process, and removes its data. */
      async end() {
        await ask('close')
        await stop()
        clear(location)
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Runs all sides alternately, each time in another order; returns the samples of each. */
export async function alternate(rounds, sides, { warmUp = 3 } = {}) {
  const names = Object.keys(sides)
  const samples = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 0; round < rounds + warmUp; round += 1) {
    for (let turn = 0; turn < names.length; turn += 1) {
      const name = names[(round + turn) % names.length]
      const sample = await sides[name]()
      if (round >= warmUp) samples[name].push(sample)
    }
  }
  return samples
}

/** The median, and the range of most samples. */
export function summary(samples) {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))]
  return { median: at(0.5), low: at(0.1), high: at(0.9), count: samples.length }
}

/**
 * One line of the table: ours against theirs, as a ratio of medians. `target` is `{ atMost }`, or `{ atLeast }` for the
 * inverse ratio.
 */
export function line(name, { ours, theirs }, target = {}, note = undefined, unit = 'ms') {
  const [left, right] = [summary(ours), summary(theirs)]
  const ratio = target.atLeast === undefined ? left.median / right.median : right.median / left.median
  return { name, unit, ours: left, theirs: right, ratio, target, reached: isReached(ratio, target), note }
}

export function isReached(ratio, { atLeast, atMost }) {
  if (atLeast !== undefined) return ratio >= atLeast
  if (atMost !== undefined) return ratio <= atMost
  return undefined
}
