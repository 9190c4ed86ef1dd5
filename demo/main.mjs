// The demonstration: a swarm works through a task tree and checkpoints as it goes, its process is killed in the middle,
// a new process restores the last checkpoint and finishes the work.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { openScreen } from './screen.mjs'

const SWARM = fileURLToPath(new URL('swarm.mjs', import.meta.url))
const KILL_AT = 0.5

const base = mkdtempSync(join(tmpdir(), 'waymark-demo-'))
const screen = openScreen(process.stdout)
process.on('exit', () => rmSync(base, { recursive: true, force: true }))
process.stdout.on('error', (error) => {
  // A reader that closes early, such as `head`, is not a failure.
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
})
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    screen.close()
    process.exit(130)
  })
}

const first = await runSwarm('start', { killAt: KILL_AT })
screen.say(`SIGKILL: it is gone, with ${first.completed} tasks done and ${first.inProgress} in progress`)
const second = await runSwarm('resume', {})
screen.close()

if (second.completed !== second.total) fail(`the run ended with ${second.completed} of ${second.total} tasks`)
const acknowledged = first.checkpoints.at(-1)
const lost = Math.max(0, acknowledged.completed - second.restored.completed)
if (lost > 0) fail(`${acknowledged.id} held ${lost} more finished tasks than what was restored`)
report([...first.checkpoints, ...second.checkpoints], first, second)

/** Runs one process of the swarm; resolves to its last report. */
function runSwarm(mode, { killAt = Infinity }) {
  const seen = { total: 0, completed: 0, inProgress: 0, busy: [], checkpoints: [], restored: null }
  const child = spawn(process.execPath, [SWARM, mode, base], { stdio: ['ignore', 'pipe', 'inherit'] })
  screen.say(
    mode === 'start' ? `A swarm starts in process ${child.pid}` : `A new process, ${child.pid}, opens the store`,
  )
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    const event = JSON.parse(line)
    if (event.kind === 'checkpoint') seen.checkpoints.push(event)
    if (event.kind === 'restored') seen.restored = event
    if (event.kind === 'progress') Object.assign(seen, event)
    screen.show(event, seen)
    if (seen.completed / seen.total >= killAt) child.kill('SIGKILL')
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      const isExpected = killAt === Infinity ? code === 0 : signal === 'SIGKILL'
      if (isExpected) resolve(seen)
      else reject(new Error(`The swarm ended with ${signal ?? `code ${code}`}`))
    })
  })
}

function report(checkpoints, killed, finished) {
  const took = checkpoints.map((checkpoint) => checkpoint.tookMs)
  const held = checkpoints.map((checkpoint) => checkpoint.heldMs)
  const bytes = checkpoints.at(-1).sizeBytes
  const redone = killed.completed - finished.restored.completed
  const rows = [
    ['tasks finished', `${finished.completed} of ${finished.total}`],
    ['finished, checkpointed and lost', `${lost} tasks`],
    ['finished after the checkpoint', `${redone} tasks, which ran again`],
    ['interrupted, then reset', `${finished.restored.reset} tasks`],
    ['checkpoints, synced to disk', `${checkpoints.length}, the last of ${(bytes / 1024).toFixed(0)} KB`],
    ['time for a checkpoint', `median ${median(took)} ms, longest ${Math.max(...took).toFixed(1)} ms`],
    ['event loop held by it', `median ${median(held)} ms, longest ${Math.max(...held).toFixed(1)} ms`],
    ['time to restore', `${finished.restored.tookMs.toFixed(1)} ms`],
  ]
  console.log('\nAll done.')
  for (const [name, value] of rows) console.log(`  ${name.padEnd(32)} ${value}`)
}

function fail(why) {
  console.error(`This should not happen: ${why}`)
  process.exit(1)
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)].toFixed(1)
}
