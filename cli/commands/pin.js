// Keeps retention from a checkpoint.

'use strict'

module.exports = {
  name: 'pin',
  summary: 'Keep a checkpoint, whatever retention says; with --off no longer.',
  positionals: [{ name: 'session/checkpoint', meaning: 'Which one: an id, a beginning, a label, latest, latest~2.' }],
  options: [{ name: 'off', meaning: 'Let retention have it again.' }],
  document: '{ sessionId, checkpointId, pinned }',
  examples: ['waymark pin nightly/before-tests', 'waymark pin nightly/before-tests --off'],
  run,
}

async function run(call) {
  const { checkpoint } = require('../references.js')
  const { succeeded } = require('../results.js')
  const store = await call.store()
  const { sessionId, checkpointId } = await checkpoint(store, call.words['session/checkpoint'])
  const pinned = !call.options.off
  succeeded(
    await (pinned ? store.pinCheckpoint(sessionId, checkpointId) : store.unpinCheckpoint(sessionId, checkpointId)),
  )
  return {
    json: { sessionId, checkpointId, pinned },
    text: (terminal) => [
      `${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')} is ${pinned ? 'pinned' : 'no longer pinned'}.`,
    ],
  }
}
