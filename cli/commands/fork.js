// Starts a new session from a checkpoint of another.

'use strict'

const { CHECKPOINT } = require('../input/positionals.js')
const { count } = require('../terminal/units.js')
const { RESET_OPTIONS, resetFlags, warningLines } = require('./shared/replace-state.js')

module.exports = {
  name: 'fork',
  positionals: [CHECKPOINT, { name: 'new-session', description: 'The id of the new session. It must not exist.' }],
  options: RESET_OPTIONS,
  advice: {
    WAYMARK_EXISTS: 'Choose another id for the new session.',
    WAYMARK_INVALID_ID: 'Choose another id for the new session.',
  },
  jsonResult: 'the result of forkSession()',
  examples: ['waymark fork nightly/before-tests nightly-by-hand --reset-failed'],
  run,
}

async function run(context) {
  const { checkpoint } = require('../input/references.js')
  const { assertSuccess } = require('./shared/result.js')
  const store = await context.store()
  const { sessionId, checkpointId } = await checkpoint(store, context.args['session/checkpoint'])
  const newSessionId = context.args['new-session']
  const result = assertSuccess(
    await store.forkSession({ sessionId, checkpointId, newSessionId, ...resetFlags(context.options) }),
  )
  return {
    json: result,
    text: (terminal) => [
      `Forked session ${terminal.paint(newSessionId, 'bold')} from ${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')}: ` +
        `${count(result.restoredTasks, 'task')}, ${count(result.restoredAgents, 'agent')}.`,
      ...warningLines(terminal, result.warnings),
    ],
  }
}
