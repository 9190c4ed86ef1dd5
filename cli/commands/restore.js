// Replaces the saved state of a session with one of its checkpoints.

'use strict'

const { CHECKPOINT } = require('../input/positionals.js')
const { RESET_OPTIONS, confirmAndReplace, restoredLines } = require('./shared/replace-state.js')

module.exports = {
  name: 'restore',
  positionals: [CHECKPOINT],
  options: RESET_OPTIONS,
  isDestructive: true,
  notes: [
    'It replaces the saved session and task tree atomically; one earlier version of both is kept. Checkpoints do not change.',
  ],
  jsonResult: 'the result of restoreCheckpoint(), with checkpointId',
  examples: ['waymark restore nightly/before-tests', 'waymark restore nightly/latest~1 --reset-failed --yes'],
  run,
}

async function run(context) {
  const { checkpoint } = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const store = await context.store()
  const { sessionId, checkpointId } = await checkpoint(store, context.args['session/checkpoint'])
  await unleasedSession(store, sessionId)
  const change = { sessionId, checkpointId, question: 'Restore it?' }
  const result = await confirmAndReplace(context, store, change, (writer, resets) =>
    writer.restoreCheckpoint(sessionId, checkpointId, { ...resets, validateChecksum: true }),
  )
  if (!result) return context.declined()
  return {
    json: { ...result, checkpointId },
    text: (terminal) => restoredLines(terminal, result, checkpointId),
  }
}
