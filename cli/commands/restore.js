// Makes a session what one of its checkpoints says.

'use strict'

const { RESET_OPTIONS, outcome, present, promised, resetsOf, resetsSentence, writerFor } = require('../replacing.js')

module.exports = {
  name: 'restore',
  positionals: [{ name: 'session/checkpoint', meaning: 'Which one: an id, a beginning, a label, latest, latest~2.' }],
  options: RESET_OPTIONS,
  isDestructive: true,
  notes: [
    'The saved session and task tree are replaced, as one step; one earlier version of both is kept. Checkpoints stay as they are.',
  ],
  document: 'what restoreCheckpoint() gives, and checkpointId',
  examples: ['waymark restore nightly/before-tests', 'waymark restore nightly/latest~1 --reset-failed --yes'],
  run,
}

async function run(call) {
  const { checkpoint, read } = require('../references.js')
  const { unownedSession } = require('../owner.js')
  const { succeeded } = require('../results.js')
  const store = await call.store()
  const { sessionId, checkpointId } = await checkpoint(store, call.words['session/checkpoint'])
  await unownedSession(store, sessionId)
  const resets = resetsOf(call.options)
  const lines = [
    promised(checkpointId, await read(store, { sessionId, checkpointId })),
    await present(store, sessionId),
    ...resetsSentence(resets),
  ]
  const writer = await writerFor(call, store, sessionId, lines, 'Restore it?')
  if (!writer) return call.declined()
  const options = { ...resets, validateChecksum: true }
  const result = succeeded(await writer.restoreCheckpoint(sessionId, checkpointId, options))
  return {
    json: { ...result, checkpointId },
    text: (terminal) => outcome(terminal, result, checkpointId),
  }
}
