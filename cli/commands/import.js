// Brings in a session that `export` wrote.

'use strict'

const { closeSync, openSync, statSync } = require('node:fs')

const { failure, wrongUse } = require('../complaint.js')
const { bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'import',
  positionals: [{ name: 'file', meaning: 'The file. All of it is checked before anything of it is to be seen.' }],
  options: [{ name: 'as', value: 'session', meaning: 'Another id for the session.' }],
  notes: ['A session that exists is never overwritten. A store that does not exist yet is made.'],
  advice: {
    WAYMARK_EXISTS: 'Give it another id with --as, or remove that one first.',
    WAYMARK_INVALID_ID: 'Choose another id for --as.',
    WAYMARK_CORRUPT: 'Nothing came in: it takes a file as waymark export writes it.',
    WAYMARK_CHECKSUM_MISMATCH: 'Nothing came in: export it again, or take another copy of the file.',
  },
  document: 'what importSession() gives',
  examples: ['waymark import nightly.zst', 'waymark import nightly.zst sqlite:./store.db --as nightly-2'],
  run,
}

async function run(call) {
  const { file } = call.words
  const { as } = call.options
  // Before the store is made, which nobody wants for a file that is none.
  if (!file.startsWith('~')) refuseIfNoFile(file)
  const store = await call.store({ create: true })
  const whole = 'nothing came in.'
  const result = await call.work({ title: `Importing ${file}`, whole }, (watch) =>
    store.importSession(file, as === undefined ? watch : { ...watch, as }),
  )
  return {
    json: result,
    text: (terminal) => [
      `Session ${terminal.paint(result.sessionId, 'bold')} is in ${terminal.paint(store.getBaseDir())}: ` +
        `${count(result.checkpoints, 'checkpoint')}, ${count(result.documents, 'document')}, ${bytes(result.bytes)}.`,
    ],
  }
}

function refuseIfNoFile(file) {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats) throw wrongUse(`There is no file ${file}. waymark export writes one.`)
  if (stats.isDirectory()) throw wrongUse(`${file} is a directory: the file comes first, the location last.`)
  try {
    closeSync(openSync(file))
  } catch (error) {
    throw failure(`The file ${file} cannot be read: ${error.message}.`)
  }
}
