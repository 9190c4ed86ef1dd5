// Starts a new session from a checkpoint of another.

'use strict'

const { RESET_OPTIONS, resetsOf } = require('../replacing.js')
const { count } = require('../terminal/units.js')

module.exports = {
  name: 'fork',
  summary: 'Start a new session from a checkpoint of another, which stays as it is.',
  positionals: [
    { name: 'session/checkpoint', meaning: 'Where it starts: an id, a beginning, a label, latest, latest~2.' },
    { name: 'new-session', meaning: 'The id of the new session, which must not exist.' },
  ],
  options: RESET_OPTIONS,
  advice: {
    WAYMARK_EXISTS: 'Choose another id for the new session.',
    WAYMARK_INVALID_ID: 'Choose another id for the new session.',
  },
  document: 'what forkSession() gives',
  examples: ['waymark fork nightly/before-tests nightly-by-hand --reset-failed'],
  run,
}

async function run(call) {
  const { checkpoint } = require('../references.js')
  const { succeeded } = require('../results.js')
  const store = await call.store()
  const { sessionId, checkpointId } = await checkpoint(store, call.words['session/checkpoint'])
  const newSessionId = call.words['new-session']
  const result = succeeded(
    await store.forkSession({ sessionId, checkpointId, newSessionId, ...resetsOf(call.options) }),
  )
  return {
    json: result,
    text: (terminal) => [
      `Session ${terminal.paint(newSessionId, 'bold')} starts from ${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')}: ` +
        `${count(result.restoredTasks, 'task')}, ${count(result.restoredAgents, 'agent')}.`,
      ...result.warnings.map((warning) => `  ${terminal.paint(warning, 'yellow')}`),
    ],
  }
}
