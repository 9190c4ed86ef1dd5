// The demonstration: a swarm is killed in the middle and finishes in a new process.

'use strict'

const { spawn } = require('node:child_process')
const { join } = require('node:path')

const { DONE, FAILED, INTERRUPTED } = require('../cli-error.js')

module.exports = {
  name: 'demo',
  positionals: [],
  options: [],
  hasNoStore: true,
  notes: ['It uses a temporary directory, takes about ten seconds, and removes what it wrote.'],
  jsonResult: '{ finished, printed }',
  examples: ['waymark demo'],
  run,
}

async function run(context) {
  const isJson = context.options.json === true
  const program = join(__dirname, '../../demo/main.mjs')
  const child = spawn(process.execPath, [program], { stdio: ['inherit', isJson ? 'pipe' : 'inherit', 'inherit'] })
  let printed = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => (printed += text))
  // The terminal sends Ctrl-C to the child too, which cleans up and exits. SIGTERM has to be forwarded.
  const forward = (signal) => child.kill(signal)
  process.on('SIGTERM', forward)
  process.on('SIGINT', () => {})
  const exitCode = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve(signal ? INTERRUPTED : code))
  })
  process.off('SIGTERM', forward)
  return {
    exitCode: exitCode === DONE || exitCode === INTERRUPTED ? exitCode : FAILED,
    json: { finished: exitCode === DONE, printed: printed.split('\n').filter(Boolean) },
  }
}
