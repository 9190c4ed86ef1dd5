// Other processes, on the runtime that runs the tests.

import { execFile, spawn } from 'node:child_process'
import { pathToFileURL } from 'node:url'

const addon = new URL('../../index.js', import.meta.url)

const programOf = (source) =>
  `import { CheckpointStore } from ${JSON.stringify(pathToFileURL(addon.pathname).href)}\n${source}`

/** Refuses writes beyond so many bytes of a file, instead of ending the process. */
const limited = (mostBytes) => ['sh', '-c', `trap '' XFSZ; ulimit -f ${mostBytes / 512}; exec "$@"`, 'sh']

/**
 * Runs a module that has `CheckpointStore` in scope; resolves to its exit code and what it printed. With `mostBytes`, no
 * file that it writes becomes longer than that.
 */
export function runNode(source, { args = [], timeout = 60_000, mostBytes = undefined } = {}) {
  return new Promise((resolve) => {
    const node = [process.execPath, '--input-type=module', '--eval', programOf(source), ...args]
    const [program, ...run] = mostBytes === undefined ? node : [...limited(mostBytes), ...node]
    execFile(program, run, { timeout }, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, signal: error?.signal ?? null, stdout, stderr })
    })
  })
}

/** Starts such a module, which can be written to. */
export function startNode(source) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', programOf(source)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text
  })
  const ended = new Promise((resolve) => {
    child.once('close', resolve)
  })
  return { child, ended, printed: () => printed }
}

/** Runs such a module until it has printed so many lines, kills it in the middle, and resolves to all whole lines. */
export function killNode(source, { afterLines }) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', programOf(source)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text
    if (printed.split('\n').length > afterLines) child.kill('SIGKILL')
  })
  return new Promise((resolve, reject) => {
    child.once('close', (_, signal) => {
      if (signal === 'SIGKILL') resolve(printed.split('\n').slice(0, -1))
      else reject(new Error(`The process ended by itself, after ${JSON.stringify(printed)}`))
    })
  })
}
