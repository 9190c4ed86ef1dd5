// Asks for confirmation before a change.

'use strict'

const { CliError, INTERRUPTED, usageError } = require('../cli-error.js')

const { wrapLines } = require('./lines.js')

/** Prints the planned change, and asks. Any answer but yes declines; without a terminal it is an error. */
async function ask({ spec, err }, lines, question) {
  if (!process.stdin.isTTY || !err.isTerminal) {
    throw usageError(
      `The command ${spec.name} needs a confirmation, and there is no terminal to ask on: add --yes. Nothing was changed.`,
      lines,
    )
  }
  const sanitized = lines.map((line) => err.paint(line))
  for (const line of wrapLines(sanitized, err.columns)) err.stream.write(`${line}\n`)
  const answer = await readAnswer(`${err.paint(question, 'bold')} [y/N] `)
  return /^y(?:es)?$/i.test(answer.trim())
}

function readAnswer(prompt) {
  const { createInterface } = require('node:readline')
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve, reject) => {
    let answer
    reader.once('SIGINT', () => {
      reject(new CliError('Stopped; nothing was changed.', INTERRUPTED))
      reader.close()
    })
    reader.question(prompt, (text) => {
      answer = text
      reader.close()
    })
    // The end of the input, such as Ctrl-D, declines.
    reader.once('close', () => {
      if (answer === undefined) process.stderr.write('\n')
      resolve(answer ?? '')
    })
  })
}

module.exports = { ask }
