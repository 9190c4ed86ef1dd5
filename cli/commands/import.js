// Creates a session from an export file.

'use strict'

const { closeSync, openSync, statSync } = require('node:fs')

const { failure, usageError } = require('../cli-error.js')
const { bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'import',
  positionals: [
    { name: 'file', description: 'The export file. It is verified as a whole before the session becomes visible.' },
  ],
  options: [{ name: 'as', value: 'session', description: 'Give the session another id.' }],
  notes: ['An existing session is never overwritten. A store that does not exist is created.'],
  advice: {
    WAYMARK_EXISTS: 'Give it another id with --as, or remove the existing session first.',
    WAYMARK_INVALID_ID: 'Choose another id for --as.',
    WAYMARK_CORRUPT: 'Nothing was imported: the file must be one that waymark export wrote.',
    WAYMARK_CHECKSUM_MISMATCH: 'Nothing was imported: export the session again, or use another copy of the file.',
  },
  jsonResult: 'the result of importSession()',
  examples: ['waymark import nightly.zst', 'waymark import nightly.zst sqlite:./store.db --as nightly-2'],
  run,
}

async function run(context) {
  const { file } = context.args
  const { as } = context.options
  // Check before the store is created. The store expands a leading `~`.
  if (!file.startsWith('~')) assertReadable(file)
  const store = await context.store({ create: true })
  const afterCancel = 'nothing was imported.'
  const result = await context.runTask({ title: `Importing ${file}`, afterCancel }, (work) =>
    store.importSession(file, as === undefined ? work : { ...work, as }),
  )
  return {
    json: result,
    text: (terminal) => [
      `Imported session ${terminal.paint(result.sessionId, 'bold')} into ${terminal.paint(store.getBaseDir())}: ` +
        `${count(result.checkpoints, 'checkpoint')}, ${count(result.documents, 'document')}, ${bytes(result.bytes)}.`,
    ],
  }
}

function assertReadable(file) {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats) throw usageError(`There is no file ${file}. waymark export writes one.`)
  if (stats.isDirectory()) throw usageError(`${file} is a directory: the file comes first, the location last.`)
  try {
    closeSync(openSync(file))
  } catch (error) {
    throw failure(`The file ${file} cannot be read: ${error.message}.`)
  }
}
