// The demonstration: a swarm works through a task tree and takes checkpoints. Its process is killed half way; a new process restores
// the newest checkpoint and finishes the work.

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
  // A reader that closes its end, such as `head`, is no error.
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
screen.print(`SIGKILL: the process died with ${first.completed} tasks done and ${first.inProgress} in progress`)
const second = await runSwarm('resume', {})
screen.close()

if (second.completed !== second.total) fail(`the run ended with ${second.completed} of ${second.total} tasks`)
const acknowledged = first.checkpoints.at(-1)
const lost = Math.max(0, acknowledged.completed - second.restored.completed)
if (lost > 0) fail(`${lost} finished tasks of ${acknowledged.id} were not restored`)
report([...first.checkpoints, ...second.checkpoints], first, second)

/** Runs one process of the swarm; resolves to its last reported state. */
function runSwarm(mode, { killAt = Infinity }) {
  const state = { total: 0, completed: 0, inProgress: 0, busy: [], checkpoints: [], restored: null }
  const child = spawn(process.execPath, [SWARM, mode, base], { stdio: ['ignore', 'pipe', 'inherit'] })
  screen.print(
    mode === 'start' ? `A swarm starts in process ${child.pid}` : `A new process, ${child.pid}, opens the store`,
  )
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    const event = JSON.parse(line)
    if (event.kind === 'checkpoint') state.checkpoints.push(event)
    if (event.kind === 'restored') state.restored = event
    if (event.kind === 'progress') Object.assign(state, event)
    screen.show(event, state)
    if (state.completed / state.total >= killAt) child.kill('SIGKILL')
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      const isExpected = killAt === Infinity ? code === 0 : signal === 'SIGKILL'
      if (isExpected) resolve(state)
      else reject(new Error(`The swarm ended with ${signal ?? `code ${code}`}`))
    })
  })
}

function report(checkpoints, killed, finished) {
  const durations = checkpoints.map((checkpoint) => checkpoint.tookMs)
  const blocked = checkpoints.map((checkpoint) => checkpoint.blockedMs)
  const bytes = checkpoints.at(-1).sizeBytes
  const redone = killed.completed - finished.restored.completed
  const rows = [
    ['tasks finished', `${finished.completed} of ${finished.total}`],
    ['finished, checkpointed and lost', `${lost} tasks`],
    ['finished after the checkpoint', `${redone} tasks, which ran again`],
    ['interrupted, then reset', `${finished.restored.reset} tasks`],
    ['checkpoints, synced to disk', `${checkpoints.length}, the last of ${(bytes / 1024).toFixed(0)} KB`],
    ['time for a checkpoint', `median ${median(durations)} ms, longest ${Math.max(...durations).toFixed(1)} ms`],
    ['event loop blocked by it', `median ${median(blocked)} ms, longest ${Math.max(...blocked).toFixed(1)} ms`],
    ['time to restore', `${finished.restored.tookMs.toFixed(1)} ms`],
  ]
  console.log('\nAll done.')
  for (const [name, value] of rows) console.log(`  ${name.padEnd(32)} ${value}`)
}

function fail(reason) {
  console.error(`The demonstration failed: ${reason}`)
  process.exit(1)
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)].toFixed(1)
}
