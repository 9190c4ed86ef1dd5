#!/usr/bin/env node
// The command `waymark`: dispatches to a command, prints its result, and sets the exit code.

'use strict'

require('node:module').enableCompileCache?.()

const { CliError, DONE, USAGE_ERROR, usageError } = require('./cli-error.js')
const { NAMES, commandOf } = require('./commands/index.js')
const { standardStream, terminalOf } = require('./terminal/terminal.js')

main(process.argv.slice(2)).then(
  (exitCode) => (process.exitCode = exitCode),
  (error) => (process.exitCode = reportError(error)),
)

async function main([first, ...rest]) {
  if (first === undefined) {
    standardStream('stderr').write(require('./views/help.js').overview())
    return USAGE_ERROR
  }
  if (first === '--help' || first === '-h' || (first === 'help' && rest.length === 0)) {
    return print(require('./views/help.js').overview())
  }
  if (first === '--version' || first === '-V') return print(`${require('../package.json').version}\n`)
  if (first === 'help') return main([rest[0], '--help'])
  // The completion scripts call this.
  if (first === '__complete') return print(await require('./input/completion.js').complete(rest))
  const command = commandOf(first)
  if (!command) throw unknownCommand(first)
  return run(command, rest)
}

async function run(command, argv) {
  const { readArguments } = require('./input/arguments.js')
  const given = readArguments(command, argv)
  if (given.options.help) return print(require('./views/help.js').helpOf(command))
  const { CommandContext } = require('./commands/shared/context.js')
  const context = new CommandContext(command, given)
  try {
    const { exitCode = DONE, json, text, problems = [] } = await command.run(context)
    if (context.options.json && json !== undefined) print(require('./views/json-document.js').jsonDocument(json))
    if (!context.options.json && text) print(asText(text(context.out), context.out))
    // A partial failure: the rest of the work was done.
    if (problems.length > 0) printErrors(problems.map((problem) => `waymark: ${problem}`))
    return exitCode
  } catch (error) {
    throw require('./views/error-message.js').toCliError(error, command.advice, context.openedStore)
  } finally {
    await context.close()
  }
}

/** Joins lines. On a terminal, lines that are too long are wrapped between words. */
function asText(lines, terminal) {
  const wrapped = terminal.isTerminal ? require('./terminal/lines.js').wrapLines(lines, terminal.columns) : lines
  return wrapped.map((line) => `${line}\n`).join('')
}

function print(text) {
  standardStream('stdout').write(text)
  return DONE
}

function unknownCommand(name) {
  if (name.startsWith('-')) return usageError('The command comes before its options. See waymark --help.')
  const { didYouMean } = require('./input/suggest.js')
  return usageError(`There is no command ${JSON.stringify(name)}.${didYouMean(name, NAMES)} See waymark --help.`)
}

/** Prints an error for people; returns the exit code for programs. */
function reportError(error) {
  const { message, details, exitCode } =
    error instanceof CliError ? error : require('./views/error-message.js').toCliError(error)
  printErrors([`waymark: ${message}`, ...details.map((line) => `  ${line}`)])
  return exitCode
}

function printErrors(lines) {
  const stream = standardStream('stderr')
  const terminal = terminalOf(stream)
  const sanitized = lines.map((line) => terminal.paint(line))
  stream.write(asText(sanitized, terminal))
}
