// The command on a pseudo-terminal, with keys and a screen.

import { spawn, spawnSync } from 'node:child_process'

import unicode from '@xterm/addon-unicode11'
import xterm from '@xterm/headless'

import { COMMAND, environment, trackChild } from './command.mjs'

/** Far beyond any normal duration, so that a failing test does not hang. */
const TIMEOUT_MS = 30_000

export const CTRL_C = '\u0003'
export const ENTER = '\r'

/** Why there is no pseudo-terminal here, for `skip`; `false` where there is one. */
export const noTerminal = whyNot()

function whyNot() {
  if (process.platform === 'win32') return 'Windows has no `script` that opens a pseudo-terminal'
  return spawnSync('script', ['--version']).error ? '`script`, which opens a pseudo-terminal, is not installed' : false
}

const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`

/** The arguments of `script` for a shell command, which differ between util-linux and BSD. */
const scriptArguments = (command) =>
  process.platform === 'linux' ? ['-qefc', command, '/dev/null'] : ['-q', '/dev/null', 'sh', '-c', command]

/** A program on a terminal: its screen and its input. */
class Session {
  #child
  #screen
  #watchers = new Set()
  #raw = ''
  #decoder = new TextDecoder()
  #isOver = false

  constructor(words, { columns, rows, env, cwd }) {
    this.columns = columns
    this.#screen = new xterm.Terminal({ cols: columns, rows, scrollback: 100_000, allowProposedApi: true })
    this.#screen.loadAddon(new unicode.Unicode11Addon())
    this.#screen.unicode.activeVersion = '11'
    const command = `stty sane cols ${columns} rows ${rows} && exec ${words.map(quoted).join(' ')}`
    this.#child = trackChild(
      spawn('script', scriptArguments(command), {
        cwd,
        env: environment(env),
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    )
    // Answer queries such as for the position of the cursor.
    this.#screen.onData((answer) => this.type(answer))
    this.#child.stdin.on('error', () => {})
    this.#child.stdout.on('data', (bytes) => {
      const text = this.#decoder.decode(bytes, { stream: true })
      this.#raw += text
      this.#screen.write(text, () => this.#look())
    })
    const limit = setTimeout(() => this.kill(), 2 * TIMEOUT_MS).unref()
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      this.#child.once('close', (code) => {
        clearTimeout(limit)
        this.#screen.write('', () => {
          this.#isOver = true
          this.#look()
          resolve(code)
        })
      })
    })
  }

  /** Presses keys. */
  type(keys) {
    if (!this.#isOver) this.#child.stdin.write(keys)
  }

  /** Everything that the program wrote to the terminal. */
  get raw() {
    return this.#raw
  }

  /** The scrollback and the screen, without trailing empty lines. */
  get lines() {
    const buffer = this.#screen.buffer.active
    const lines = Array.from({ length: buffer.length }, (_, at) => buffer.getLine(at).translateToString(true))
    return lines.slice(0, lines.findLastIndex((line) => line !== '') + 1)
  }

  get text() {
    return this.lines.join('\n')
  }

  /** The lines that wrapped. */
  get wrapped() {
    const buffer = this.#screen.buffer.active
    const rows = Array.from({ length: buffer.length }, (_, at) => buffer.getLine(at))
    return rows.flatMap((row, at) => (row.isWrapped ? [rows[at - 1].translateToString(true)] : []))
  }

  /** Whether the alternate screen is active. */
  get isAlternate() {
    return this.#screen.buffer.active.type === 'alternate'
  }

  /** Whether the program has hidden the cursor and not shown it again. */
  get isCursorHidden() {
    return this.raw.lastIndexOf('\u001b[?25l') > this.raw.lastIndexOf('\u001b[?25h')
  }

  /** Resolves to the visible text as soon as it matches a pattern or condition. */
  shows(what) {
    const holds = typeof what === 'function' ? what : () => what.test(this.text)
    return new Promise((resolve, reject) => {
      const settle = (how, value) => {
        clearTimeout(limit)
        this.#watchers.delete(watcher)
        how(value)
      }
      const watcher = () => {
        if (holds()) settle(resolve, this.text)
        else if (this.#isOver) settle(reject, new Error(`It ended without showing ${what}:\n${this.text}`))
      }
      const limit = setTimeout(() => {
        this.kill()
        settle(reject, new Error(`It never showed ${what}:\n${this.text}`))
      }, TIMEOUT_MS)
      this.#watchers.add(watcher)
      watcher()
    })
  }

  /** For a test that ends before the program. */
  kill() {
    this.#child.kill('SIGKILL')
  }

  #look() {
    for (const watcher of this.#watchers) watcher()
  }
}

/** Starts a program on a terminal of this size. */
export function openTerminal(words, { columns = 80, rows = 24, env = {}, cwd = process.cwd() } = {}) {
  return new Session(words, { columns, rows, env, cwd })
}

/** Starts `waymark` on a terminal. */
export const openWaymark = (args, options) => openTerminal([process.execPath, COMMAND, ...args], options)

/** Runs `waymark` on a terminal to its end: its exit code and its screen. */
export async function seenOf(args, options) {
  const terminal = openWaymark(args, options)
  const code = await terminal.ended
  const { raw, lines, text, wrapped, isCursorHidden, isAlternate } = terminal
  return { code, raw, lines, text, wrapped, isCursorHidden, isAlternate }
}
