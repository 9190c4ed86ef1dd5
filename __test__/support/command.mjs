// The command as programs run it: no terminal, everything that it prints in pipes.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import { scratchDirectory } from './stores.mjs'

const ROOT = new URL('../../', import.meta.url)
const { bin } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'))

/** The file that `npx waymark` runs. */
export const COMMAND = fileURLToPath(new URL(bin?.waymark ?? 'cli/main.js', ROOT))

/** Far beyond what anything takes: a test that fails should not hang. */
const PATIENCE_MS = 60_000

/** What would change what is printed, if whoever runs the tests has set it. */
const MEDDLERS =
  'CI COLORTERM COLUMNS FORCE_COLOR LC_ALL LC_CTYPE LINES NODE_DISABLE_COLORS NODE_OPTIONS NODE_TEST_CONTEXT NO_COLOR TMUX WAYMARK_STORE'

const home = scratchDirectory()

/** The environment of a person with a modern terminal and nothing in their home directory. */
export function environment(overrides = {}) {
  const env = { ...process.env, HOME: home, USERPROFILE: home, LANG: 'C.UTF-8', TERM: 'xterm-256color' }
  for (const name of MEDDLERS.split(' ')) delete env[name]
  return { ...env, ...overrides }
}

/** How many tests of a suite run at once, where none disturbs another: most of the time they wait for processes. */
export const AT_ONCE = { concurrency: 4 }

/** Collects what a child prints until it has ended. */
export function outcomeOf(child) {
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) {
    child[name]?.setEncoding('utf8').on('data', (text) => {
      printed[name] += text
    })
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...printed }))
  })
}

const running = new Set()

/** Remembers a child until it has ended. */
export function remember(child) {
  running.add(child)
  child.once('close', () => running.delete(child))
  return child
}

/** Ends what a test that failed has left behind: for `after`. */
export function endWhatIsLeft() {
  for (const child of running) child.kill('SIGKILL')
}

/** Starts `waymark` with these arguments, without a terminal and without anything to read. */
export function startWaymark(args, { env = {}, cwd = home } = {}) {
  return remember(
    spawn(process.execPath, [COMMAND, ...args], {
      cwd,
      env: environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: PATIENCE_MS,
      killSignal: 'SIGKILL',
    }),
  )
}

/** Runs it to its end: `code`, `signal`, `stdout` and `stderr`. */
export const waymark = (args, options) => outcomeOf(startWaymark(args, options))
