// The demonstration: a swarm is killed in the middle and finishes in a new process.

'use strict'

const { spawn } = require('node:child_process')
const { join } = require('node:path')

const { DONE, FAILED, STOPPED } = require('../complaint.js')

module.exports = {
  name: 'demo',
  summary: 'See it work: a swarm is killed in the middle and finishes in a new process.',
  positionals: [],
  options: [],
  hasNoStore: true,
  notes: ['It works in a temporary directory, takes about ten seconds, and leaves nothing behind.'],
  document: '{ finished, printed }',
  examples: ['waymark demo'],
  run,
}

async function run(call) {
  const isDocument = call.options.json === true
  const program = join(__dirname, '../../demo/main.mjs')
  const child = spawn(process.execPath, [program], { stdio: ['inherit', isDocument ? 'pipe' : 'inherit', 'inherit'] })
  let printed = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => (printed += text))
  // Ctrl-C reaches the demonstration too, which clears away and ends; a signal to this process alone does not.
  const stop = (signal) => child.kill(signal)
  process.on('SIGTERM', stop)
  process.on('SIGINT', () => {})
  const exitCode = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve(signal ? STOPPED : code))
  })
  process.off('SIGTERM', stop)
  return {
    exitCode: exitCode === DONE || exitCode === STOPPED ? exitCode : FAILED,
    json: { finished: exitCode === DONE, printed: printed.split('\n').filter(Boolean) },
  }
}
