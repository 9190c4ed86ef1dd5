// Makes a session what its newest checkpoint that is whole says.

'use strict'

const {
  RESET_OPTIONS,
  outcome,
  present,
  promised,
  resetsOf,
  resetsSentence,
  versionsToKeep,
} = require('../replacing.js')

const { reasonOf } = require('../explain.js')

module.exports = {
  name: 'recover',
  summary: 'Make a session what its newest whole checkpoint says, and name those that are damaged.',
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
  const { checkpoint, damaged } = await newestWhole(store, sessionId, await references.checkpointsOf(store, sessionId))
  const resets = resetsOf(call.options)
  const quarantine = call.options.quarantine === true
  const lines = [
    ...damaged.map(
      ({ id, error }) =>
        `Checkpoint ${id} is damaged, and ${quarantine ? 'moved aside' : 'passed over'}: ${reasonOf(error)}`,
    ),
    promised(checkpoint),
    await present(store, sessionId),
    ...resetsSentence(resets),
  ]
  if (!(await call.mayGoOn(lines, 'Recover it?'))) return call.declined()
  const keepPrevious = await versionsToKeep(store, sessionId)
  const writer = await call.store({ keepPrevious })
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

/** What a recovery would find, without changing anything: the newest checkpoint that is whole, and newer ones that are not. */
async function newestWhole(store, sessionId, checkpoints) {
  const damaged = []
  for (const { id, damaged: unreadable } of checkpoints) {
    if (unreadable) {
      damaged.push(unreadable)
      continue
    }
    try {
      const checkpoint = await store.getCheckpoint(sessionId, id)
      if (checkpoint) return { checkpoint, damaged }
    } catch (error) {
      damaged.push({ id, error: error.message })
    }
  }
  const { failure } = require('../complaint.js')
  const why = damaged.length === 0 ? 'has no checkpoints' : 'has no checkpoint that is whole'
  throw failure(
    `Session ${sessionId} ${why}: there is nothing to recover it from.`,
    damaged.map(({ id, error }) => `${id}: ${reasonOf(error)}`),
  )
}
