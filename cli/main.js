#!/usr/bin/env node
// The command `waymark`: finds out which command is meant, lets it work, and says what came of it.

'use strict'

require('node:module').enableCompileCache?.()

const { Complaint, DONE, WRONG_USE, wrongUse } = require('./complaint.js')
const { NAMES, commandOf } = require('./commands.js')
const { standard, terminalOf } = require('./terminal/terminal.js')

main(process.argv.slice(2)).then(
  (exitCode) => (process.exitCode = exitCode),
  (error) => (process.exitCode = complain(error)),
)

async function main([first, ...rest]) {
  if (first === undefined) {
    standard('stderr').write(require('./help.js').overview())
    return WRONG_USE
  }
  if (first === '--help' || first === '-h' || (first === 'help' && rest.length === 0)) {
    return say(require('./help.js').overview())
  }
  if (first === '--version' || first === '-V') return say(`${require('../package.json').version}\n`)
  if (first === 'help') return main([rest[0], '--help'])
  // What the scripts of `completion` call.
  if (first === '__complete') return say(await require('./complete.js').complete(rest))
  const command = commandOf(first)
  if (!command) throw unknown(first)
  return run(command, rest)
}

async function run(command, argv) {
  const { read } = require('./arguments.js')
  const asked = read(command, argv)
  if (asked.options.help) return say(require('./help.js').helpOf(command))
  const { Call } = require('./call.js')
  const call = new Call(command, asked)
  try {
    const { exitCode = DONE, json, text, troubles = [] } = await command.run(call)
    if (call.options.json && json !== undefined) say(require('./document.js').documentOf(json))
    if (!call.options.json && text) say(shown(text(call.out), call.out))
    // What could not be done, beside what was.
    if (troubles.length > 0) complainOf(troubles.map((trouble) => `waymark: ${trouble}`))
    return exitCode
  } catch (error) {
    throw require('./explain.js').explain(error, command.advice, call.opened)
  } finally {
    await call.close()
  }
}

/** Lines as they are written: a sentence that is too long for the terminal is broken between words. */
function shown(lines, terminal) {
  const broken = terminal.isTerminal ? require('./terminal/lines.js').foldedAll(lines, terminal.columns) : lines
  return broken.map((line) => `${line}\n`).join('')
}

function say(text) {
  standard('stdout').write(text)
  return DONE
}

function unknown(word) {
  if (word.startsWith('-')) return wrongUse('A command comes first, its options after it. See waymark --help.')
  const { didYouMean } = require('./near.js')
  return wrongUse(`There is no command ${JSON.stringify(word)}.${didYouMean(word, NAMES)} See waymark --help.`)
}

/** Tells people what went wrong; the exit code tells programs. */
function complain(error) {
  const complaint = error instanceof Complaint ? error : require('./explain.js').explain(error)
  complainOf([`waymark: ${complaint.message}`, ...complaint.details.map((line) => `  ${line}`)])
  return complaint.exitCode
}

function complainOf(lines) {
  const stream = standard('stderr')
  const terminal = terminalOf(stream)
  const harmless = lines.map((line) => terminal.paint(line))
  stream.write(shown(harmless, terminal))
}
