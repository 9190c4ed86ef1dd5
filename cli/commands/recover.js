// Makes a session what its newest checkpoint that is whole says.

'use strict'

const { RESET_OPTIONS, outcome, present, promised, resetsOf, resetsSentence, writerFor } = require('../replacing.js')
const { failure } = require('../complaint.js')
const { reasonOf } = require('../damage.js')

module.exports = {
  name: 'recover',
  positionals: [{ name: 'session', meaning: 'An id, or a unique beginning of one.' }],
  options: [
    ...RESET_OPTIONS,
    {
      name: 'quarantine',
      meaning: 'Move damaged checkpoints aside, into damaged/ of the session. Nothing is deleted.',
    },
  ],
  isDestructive: true,
  notes: ['The saved session and task tree are replaced, as one step; one earlier version of both is kept.'],
  document: 'what recoverSession() gives',
  examples: ['waymark recover nightly', 'waymark recover nightly --reset-in-progress --quarantine --yes'],
  run,
}

async function run(call) {
  const references = require('../references.js')
  const { unownedSession } = require('../owner.js')
  const { succeeded } = require('../results.js')
  const store = await call.store()
  const sessionId = await references.sessionId(store, call.words.session)
  await unownedSession(store, sessionId)
  const resets = resetsOf(call.options)
  const quarantine = call.options.quarantine === true
  const plan = await store.recoverSession(sessionId, { ...resets, quarantine, dryRun: true })
  refuseIfNothing(sessionId, plan)
  const { checkpointId } = succeeded(plan)
  const checkpoint = await references.read(store, { sessionId, checkpointId })
  const lines = [
    ...plan.passedOver.map(
      ({ id, error }) =>
        `Checkpoint ${id} is damaged, and ${quarantine ? 'moved aside' : 'passed over'}: ${reasonOf(error)}`,
    ),
    promised(checkpointId, checkpoint),
    await present(store, sessionId),
    ...resetsSentence(resets),
  ]
  const writer = await writerFor(call, store, sessionId, lines, 'Recover it?')
  if (!writer) return call.declined()
  const result = succeeded(await writer.recoverSession(sessionId, { ...resets, quarantine }))
  return {
    json: result,
    text: (terminal) => [
      ...outcome(terminal, result, result.checkpointId),
      ...result.passedOver.map(({ id, movedTo }) =>
        terminal.paint(`  passed over ${id}${movedTo ? `, now ${belowSession(movedTo)}` : ''}`, 'red'),
      ),
    ],
  }
}

/** Where in the session it is: `damaged/` and its name. */
function belowSession(path) {
  return path.split(/[/\\]/).slice(-2).join('/')
}

/** There are no checkpoints, or only damaged ones. What cannot be read is an error of its own: it may be whole. */
function refuseIfNothing(sessionId, { code, passedOver }) {
  if (code !== 'WAYMARK_NOT_FOUND') return
  const why = passedOver.length === 0 ? 'has no checkpoints' : 'has no checkpoint that is whole'
  throw failure(
    `Session ${sessionId} ${why}: there is nothing to recover it from.`,
    passedOver.map(({ id, error }) => `${id}: ${reasonOf(error)}`),
  )
}
