// Replaces the saved state of a session with one of its checkpoints.

'use strict'

const { CHECKPOINT } = require('../input/positionals.js')
const {
  RESET_OPTIONS,
  confirmAndOpenWriter,
  describeCheckpoint,
  describeResets,
  describeSavedState,
  resetFlags,
  restoredLines,
} = require('./shared/replace-state.js')

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
  const { checkpoint, readCheckpoint } = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const { assertSuccess } = require('./shared/result.js')
  const store = await context.store()
  const { sessionId, checkpointId } = await checkpoint(store, context.args['session/checkpoint'])
  await unleasedSession(store, sessionId)
  const resets = resetFlags(context.options)
  const lines = [
    describeCheckpoint(checkpointId, await readCheckpoint(store, { sessionId, checkpointId })),
    await describeSavedState(store, sessionId),
    ...describeResets(resets),
  ]
  const writer = await confirmAndOpenWriter(context, store, sessionId, lines, 'Restore it?')
  if (!writer) return context.declined()
  const options = { ...resets, validateChecksum: true }
  const result = assertSuccess(await writer.restoreCheckpoint(sessionId, checkpointId, options))
  return {
    json: { ...result, checkpointId },
    text: (terminal) => restoredLines(terminal, result, checkpointId),
  }
}
