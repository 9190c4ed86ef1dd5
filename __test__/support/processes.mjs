// Other processes, on the runtime that runs the tests.

import { execFile, spawn } from 'node:child_process'
import { pathToFileURL } from 'node:url'

const addon = new URL('../../index.js', import.meta.url)

const programOf = (source) =>
  `import { CheckpointStore } from ${JSON.stringify(pathToFileURL(addon.pathname).href)}\n${source}`

/** Runs a module that has `CheckpointStore` in scope; resolves to its exit code and what it printed. */
export function runNode(source, { args = [], timeout = 60_000 } = {}) {
  return new Promise((resolve) => {
    const run = ['--input-type=module', '--eval', programOf(source), ...args]
    execFile(process.execPath, run, { timeout }, (error, stdout, stderr) => {
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
