// The command without a terminal: its output goes to pipes.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import { scratchDirectory } from './stores.mjs'

const ROOT = new URL('../../', import.meta.url)
const { bin } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'))

/** The file that `npx waymark` runs. */
export const COMMAND = fileURLToPath(new URL(bin?.waymark ?? 'cli/main.js', ROOT))

/** Far beyond any normal duration, so that a failing test does not hang. */
const TIMEOUT_MS = 60_000

/** Variables of the caller that would change the output. */
const OVERRIDING_VARIABLES =
  'CI COLORTERM COLUMNS FORCE_COLOR LC_ALL LC_CTYPE LINES NODE_DISABLE_COLORS NODE_OPTIONS NODE_TEST_CONTEXT NO_COLOR TMUX WAYMARK_STORE'

const home = scratchDirectory()

/** An environment with a modern terminal and an empty home directory. */
export function environment(overrides = {}) {
  const env = { ...process.env, HOME: home, USERPROFILE: home, LANG: 'C.UTF-8', TERM: 'xterm-256color' }
  for (const name of OVERRIDING_VARIABLES.split(' ')) delete env[name]
  return { ...env, ...overrides }
}

/** For suites of independent tests that mostly wait for processes. */
export const CONCURRENT = { concurrency: 4 }

/** Collects the output of a child process until it ends. */
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

/** Tracks a child process until it ends. */
export function trackChild(child) {
  running.add(child)
  child.once('close', () => running.delete(child))
  return child
}

/** Kills the child processes that a failed test has left: for `after`. */
export function killChildren() {
  for (const child of running) child.kill('SIGKILL')
}

/** Starts `waymark` with these arguments, without a terminal and without input. */
export function startWaymark(args, { env = {}, cwd = home } = {}) {
  return trackChild(
    spawn(process.execPath, [COMMAND, ...args], {
      cwd,
      env: environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
    }),
  )
}

/** Runs `waymark` to its end: `code`, `signal`, `stdout` and `stderr`. */
export const waymark = (args, options) => outcomeOf(startWaymark(args, options))
