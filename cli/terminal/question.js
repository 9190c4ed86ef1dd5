// A question that must be answered before anything is changed.

'use strict'

const { Complaint, STOPPED, wrongUse } = require('../complaint.js')

const { foldedAll } = require('./lines.js')

/** Says what would happen, and asks. Anything but a yes is a no; where nobody can answer, it is refused. */
async function ask({ spec, err }, lines, question) {
  if (!process.stdin.isTTY || !err.isTerminal) {
    throw wrongUse(
      `There is no terminal to ask on, and ${spec.name} asks before it changes anything: add --yes. Nothing was changed.`,
      lines,
    )
  }
  const harmless = lines.map((line) => err.paint(line))
  for (const line of foldedAll(harmless, err.columns)) err.stream.write(`${line}\n`)
  const answer = await answerTo(`${err.paint(question, 'bold')} [y/N] `)
  return /^y(?:es)?$/i.test(answer.trim())
}

function answerTo(prompt) {
  const { createInterface } = require('node:readline')
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve, reject) => {
    let answer
    reader.once('SIGINT', () => {
      reject(new Complaint('Stopped; nothing was changed.', STOPPED))
      reader.close()
    })
    reader.question(prompt, (text) => {
      answer = text
      reader.close()
    })
    // The end of the input, as Ctrl-D makes it, is no answer, and so a no.
    reader.once('close', () => {
      if (answer === undefined) process.stderr.write('\n')
      resolve(answer ?? '')
    })
  })
}

module.exports = { ask }
