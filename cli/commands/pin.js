// Exempts a checkpoint from retention.

'use strict'

const { CHECKPOINT } = require('../input/positionals.js')

module.exports = {
  name: 'pin',
  positionals: [CHECKPOINT],
  options: [{ name: 'off', description: 'Remove the pin.' }],
  jsonResult: '{ sessionId, checkpointId, pinned }',
  examples: ['waymark pin nightly/before-tests', 'waymark pin nightly/before-tests --off'],
  run,
}

async function run(context) {
  const { checkpoint } = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const { assertSuccess } = require('./shared/result.js')
  const store = await context.store()
  const { sessionId, checkpointId } = await checkpoint(store, context.args['session/checkpoint'])
  await unleasedSession(store, sessionId)
  const pinned = !context.options.off
  assertSuccess(
    await (pinned ? store.pinCheckpoint(sessionId, checkpointId) : store.unpinCheckpoint(sessionId, checkpointId)),
  )
  return {
    json: { sessionId, checkpointId, pinned },
    text: (terminal) => [
      `${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')} is ${pinned ? 'pinned' : 'no longer pinned'}.`,
    ],
  }
}
