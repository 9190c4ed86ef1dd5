// The highest resident memory during a checkpoint, beyond what was there before it; and during one JSON.stringify of the
// same state, which every way to store it begins with.

import { readFileSync, writeFileSync } from 'node:fs'

import { CheckpointStore } from '../index.js'
import { makeState } from './states.mjs'

const [location, ascii] = process.argv.slice(2)
const { session, agentStates, contextStore } = makeState(10_000, { ascii: ascii === 'true' })
const text = JSON.stringify({ session, agentStates, contextStore })
const textBytes = Buffer.byteLength(text)
const stringBytes = textBytes === text.length ? text.length : text.length * 2
const store = new CheckpointStore(location, 2)
await store.initialize()

const peaks = await peaksOf(async () => {
  const options = { trigger: 'auto', includeContext: true }
  const made = await store.createCheckpoint(session, agentStates, contextStore, options)
  if (!made.success) throw new Error(made.error)
})
const stringifyPeaks = await peaksOf(async () => JSON.stringify({ session, agentStates, contextStore }))
process.send({ peaks, stringifyPeaks, textBytes, stringBytes })
process.disconnect()

async function peaksOf(work) {
  const highest = []
  for (let round = 0; round < 8; round += 1) {
    globalThis.gc()
    const before = status('VmRSS')
    // Makes the system forget the peak so far.
    writeFileSync('/proc/self/clear_refs', '5')
    await work()
    highest.push(status('VmHWM') - before)
  }
  // The first ones find pages that were never touched.
  return highest.slice(2)
}

function status(name) {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))
  return Number(kilobytes) * 1024
}
