// Other processes with the runtime of the tests.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { pathToFileURL } from 'node:url'

import { makeSession } from './sessions.mjs'

const addon = new URL('../../index.js', import.meta.url)

const programOf = (source) =>
  `import { CheckpointStore } from ${JSON.stringify(pathToFileURL(addon.pathname).href)}\n${source}`

/** Makes writes beyond this file size fail instead of ending the process. */
const limited = (mostBytes) => ['sh', '-c', `trap '' XFSZ; ulimit -f ${mostBytes / 512}; exec "$@"`, 'sh']

/**
 * Runs a module with `CheckpointStore` in scope; resolves to its exit code and output. `mostBytes` limits the size
 * of the files that it writes.
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

/** Starts such a module with a writable stdin. */
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

/** Runs such a module, kills it after it has printed this many lines, and resolves to all complete lines. */
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

/** Four processes that write session `s` at once, fifteen times each, with a limit of ten checkpoints; every call must succeed. */
export async function writeFromProcesses(location) {
  const script = `
    const store = new CheckpointStore(${JSON.stringify(location)}, 10)
    await store.initialize()
    const session = ${JSON.stringify(makeSession('s'))}
    for (let n = 0; n < 15; n += 1) {
      const results = await Promise.all([
        store.createCheckpoint(session, {}, {}, { trigger: 'auto', compress: n % 2 === 0, includeContext: false }),
        store.saveSession(session),
        store.saveTaskTree('s', session.taskTree),
        store.saveTaskResult('s', 't' + n, n),
      ])
      for (const result of results) if (!result.success || result.warnings) console.log(JSON.stringify(result))
    }
  `
  const runs = await Promise.all(Array.from({ length: 4 }, () => runNode(script)))
  for (const { code, stdout, stderr } of runs) {
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' })
  }
}
