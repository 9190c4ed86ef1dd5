// Writes a session into one file that can be carried.

'use strict'

const { statSync } = require('node:fs')

const { wrongUse } = require('../complaint.js')
const { bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'export',
  positionals: [
    { name: 'session', meaning: 'An id, or a unique beginning of one.' },
    { name: 'file', meaning: 'The file to write, which must not exist, such as nightly.zst.' },
  ],
  options: [],
  advice: { WAYMARK_EXISTS: 'Choose another file, or remove that one first.' },
  document: 'what exportSession() gives',
  examples: ['waymark export nightly nightly.zst', 'waymark export nightly ~/nightly.zst sqlite:./store.db'],
  run,
}

async function run(call) {
  const { sessionId } = require('../references.js')
  const { file } = call.words
  if (isDirectory(file)) {
    throw wrongUse(`${file} is a directory: the file to write comes after the session, and before the location.`)
  }
  const store = await call.store()
  const id = await sessionId(store, call.words.session)
  const whole = 'the store is as it was, and there is no file.'
  const result = await call.work({ title: `Exporting ${id}`, whole }, (watch) => store.exportSession(id, file, watch))
  return {
    json: result,
    text: (terminal) => [
      `Session ${terminal.paint(id, 'bold')} is in ${terminal.paint(result.file)}: ${count(result.checkpoints, 'checkpoint')}, ` +
        `${count(result.documents, 'document')}, ${bytes(result.bytes)} in ${bytes(result.sizeBytes)}.`,
    ],
  }
}

function isDirectory(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
