// Writes a session to an export file.

'use strict'

const { statSync } = require('node:fs')

const { usageError } = require('../cli-error.js')
const { SESSION } = require('../input/positionals.js')
const { bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'export',
  positionals: [SESSION, { name: 'file', description: 'The file to write, such as nightly.zst. It must not exist.' }],
  options: [],
  advice: { WAYMARK_EXISTS: 'Choose another file, or remove the existing one first.' },
  jsonResult: 'the result of exportSession()',
  examples: ['waymark export nightly nightly.zst', 'waymark export nightly ~/nightly.zst sqlite:./store.db'],
  run,
}

async function run(context) {
  const { sessionId } = require('../input/references.js')
  const { file } = context.args
  if (isDirectory(file)) {
    throw usageError(`${file} is a directory: the file to write comes after the session, and before the location.`)
  }
  const store = await context.store()
  const id = await sessionId(store, context.args.session)
  const afterCancel = 'the store is unchanged, and no file was written.'
  const result = await context.runTask({ title: `Exporting ${id}`, afterCancel }, (work) =>
    store.exportSession(id, file, work),
  )
  return {
    json: result,
    text: (terminal) => [
      `Exported session ${terminal.paint(id, 'bold')} to ${terminal.paint(result.file)}: ${count(result.checkpoints, 'checkpoint')}, ` +
        `${count(result.documents, 'document')}, ${bytes(result.bytes)} compressed to ${bytes(result.sizeBytes)}.`,
    ],
  }
}

function isDirectory(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
