// Deletes a session with all its data, or one checkpoint.

'use strict'

const { usageError } = require('../cli-error.js')
const { ago, bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'rm',
  positionals: [
    { name: 'session[/checkpoint]', description: 'What to delete. With --yes, write the session id in full.' },
  ],
  options: [],
  isDestructive: true,
  jsonResult: '{ sessionId, checkpointId?, checkpoints, sizeBytes }',
  examples: ['waymark rm nightly', 'waymark rm nightly/latest~3 --yes'],
  run,
}

async function run(context) {
  const references = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const store = await context.store()
  const { session, ref } = references.split(context.args['session[/checkpoint]'])
  const id = await references.sessionId(store, session)
  if (context.options.yes && id !== session) {
    // Without a confirmation the user would not see which session a prefix refers to.
    throw usageError(`With --yes, write the session id in full: ${JSON.stringify(session)} is a prefix of ${id}.`)
  }
  const info = await unleasedSession(store, id)
  if (ref === undefined) return removeSession(context, store, info)
  return removeCheckpoint(context, store, await references.checkpointOf(store, id, ref))
}

async function removeSession(
  context,
  store,
  { id, name, status, checkpointCount = 0, agentCheckpointCount = 0, sizeBytes = 0 },
) {
  const { assertSuccess } = require('./shared/result.js')
  const facts = [status, name === id ? undefined : name].filter(Boolean).join(', ')
  const agents = agentCheckpointCount > 0 ? `, ${agentCheckpointCount} of its agents` : ''
  const lines = [
    `Session ${id}${facts ? ` (${facts})` : ''} will be deleted with ${count(checkpointCount, 'checkpoint')}${agents}, ` +
      `its results and all its other data: ${bytes(sizeBytes)}.`,
  ]
  if (!(await context.confirm(lines, 'Delete it permanently?'))) return context.declined()
  assertSuccess(await store.deleteSession(id))
  return {
    json: { sessionId: id, checkpoints: checkpointCount + agentCheckpointCount, sizeBytes },
    text: (terminal) => [`Deleted session ${terminal.paint(id, 'bold')}: ${bytes(sizeBytes)}.`],
  }
}

async function removeCheckpoint(context, store, { sessionId, checkpointId, info, damaged }) {
  const { assertSuccess } = require('./shared/result.js')
  const facts = damaged
    ? 'damaged'
    : [
        info.trigger,
        ago(info.timestamp),
        bytes(info.sizeBytes),
        info.label && `label ${info.label}`,
        info.pinned && 'pinned',
      ]
        .filter(Boolean)
        .join(', ')
  const lines = [`Checkpoint ${sessionId}/${checkpointId} (${facts}) will be deleted.`]
  if (!(await context.confirm(lines, 'Delete it permanently?'))) return context.declined()
  assertSuccess(await store.deleteCheckpoint(sessionId, checkpointId))
  return {
    json: { sessionId, checkpointId, checkpoints: 1, sizeBytes: info?.sizeBytes ?? null },
    text: (terminal) => [`Deleted checkpoint ${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')}.`],
  }
}
