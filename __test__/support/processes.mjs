// Other processes, on the runtime that runs the tests.

import { execFile } from 'node:child_process'
import { pathToFileURL } from 'node:url'

const addon = new URL('../../index.js', import.meta.url)

/** Runs a module that has `CheckpointStore` in scope; resolves to its exit code and what it printed. */
export function runNode(source, { args = [], timeout = 60_000 } = {}) {
  const program = `import { CheckpointStore } from ${JSON.stringify(pathToFileURL(addon.pathname).href)}\n${source}`
  return new Promise((resolve) => {
    const run = ['--input-type=module', '--eval', program, ...args]
    execFile(process.execPath, run, { timeout }, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, signal: error?.signal ?? null, stdout, stderr })
    })
  })
}
