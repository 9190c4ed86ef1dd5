// The mixed campaign, five minutes for all backends. Then the same with deliberate defects, each on the backends and in the
// phases that must detect it.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

import { runMixed } from '../mixed.mjs'
import { weakenedBy } from '../weakened.mjs'

const SECONDS = 300
const MIXED = fileURLToPath(new URL('../mixed.mjs', import.meta.url))

/** The defects, and the phases that must detect them. */
const DEFECTS = [
  {
    defect: 'key-reuse',
    what: 'a key of deltas that is reused',
    phase: 'abort-convert',
    backends: ['files', 'sqlite', 'memory'],
  },
  {
    defect: 'label-lock',
    what: 'labels read before the lock',
    phase: 'labels',
    backends: ['files', 'sqlite', 'memory'],
  },
  { defect: 'wal-left', what: 'a close() that leaves the log', phase: 'copy-closed', backends: ['sqlite'] },
  { defect: 'expiry-once', what: 'an expiry that does not look again', phase: 'expiry', backends: ['files', 'sqlite'] },
  { defect: 'no-deadline', what: 'a lock without a deadline', phase: 'stopped', backends: ['files'] },
]
/** The deadline for detecting a defect. */
const SECONDS_UNTIL_NOTICED = 60

export async function run() {
  const seed = Math.floor(Math.random() * 1_000_000)
  console.error(`mixed: seed ${seed}`)
  const rows = await runMixed({ seconds: SECONDS, seed })
  for (const { defect, what, phase, backends } of DEFECTS) {
    for (const backend of backends) rows.push(await weakened({ defect, what, phase, backend, seed }))
  }
  return rows
}

/** Runs a phase in a separate process, on the build with a defect. */
async function weakened({ defect, what, phase, backend, seed }) {
  const minutes = String(SECONDS_UNTIL_NOTICED / 60)
  const args = [
    '--backend',
    backend,
    '--phase',
    phase,
    '--minutes',
    minutes,
    '--seed',
    String(seed),
    '--first',
    '--json',
  ]
  const env = { ...process.env, ...weakenedBy(defect) }
  const child = spawn(process.execPath, [MIXED, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (printed += text))
  await new Promise((resolve, reject) => {
    child.once('error', reject).once('close', resolve)
  })
  const [{ tried, found }] = JSON.parse(printed)
  return { what: `the same with ${what} (${backend})`, tried, found, mustFind: true }
}
