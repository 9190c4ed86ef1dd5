// Removes a session with everything below it, or one checkpoint.

'use strict'

const { wrongUse } = require('../complaint.js')
const { ago, bytes, count } = require('../terminal/units.js')

module.exports = {
  name: 'rm',
  summary: 'Remove a session with everything below it, or one checkpoint.',
  positionals: [
    { name: 'session[/checkpoint]', meaning: 'What to remove. With --yes, a session has to be spelt in full.' },
  ],
  options: [],
  isDestructive: true,
  document: '{ sessionId, checkpointId?, checkpoints, sizeBytes }',
  examples: ['waymark rm nightly', 'waymark rm nightly/latest~3 --yes'],
  run,
}

async function run(call) {
  const references = require('../references.js')
  const { unownedSession } = require('../owner.js')
  const store = await call.store()
  const { session, ref } = references.split(call.words['session[/checkpoint]'])
  const id = await references.sessionId(store, session)
  if (call.options.yes && id !== session) {
    // Nobody sees which session a beginning stands for before it is gone.
    throw wrongUse(`With --yes a session is spelt in full: ${JSON.stringify(session)} is the beginning of ${id}.`)
  }
  const info = await unownedSession(store, id)
  if (ref === undefined) return removeSession(call, store, info)
  return removeCheckpoint(call, store, await references.found(store, id, ref))
}

async function removeSession(
  call,
  store,
  { id, name, status, checkpointCount = 0, agentCheckpointCount = 0, sizeBytes = 0 },
) {
  const { succeeded } = require('../results.js')
  const facts = [status, name === id ? undefined : name].filter(Boolean).join(', ')
  const agents = agentCheckpointCount > 0 ? `, ${agentCheckpointCount} of its agents` : ''
  const lines = [
    `Session ${id}${facts ? ` (${facts})` : ''} will be removed with ${count(checkpointCount, 'checkpoint')}${agents}, ` +
      `its results and everything else below it: ${bytes(sizeBytes)}.`,
  ]
  if (!(await call.mayGoOn(lines, 'Remove it for good?'))) return call.declined()
  succeeded(await store.deleteSession(id))
  return {
    json: { sessionId: id, checkpoints: checkpointCount + agentCheckpointCount, sizeBytes },
    text: (terminal) => [`Session ${terminal.paint(id, 'bold')} is gone: ${bytes(sizeBytes)}.`],
  }
}

async function removeCheckpoint(call, store, { sessionId, checkpointId, info, damaged }) {
  const { succeeded } = require('../results.js')
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
  const lines = [`Checkpoint ${sessionId}/${checkpointId} (${facts}) will be removed.`]
  if (!(await call.mayGoOn(lines, 'Remove it for good?'))) return call.declined()
  succeeded(await store.deleteCheckpoint(sessionId, checkpointId))
  return {
    json: { sessionId, checkpointId, checkpoints: 1, sizeBytes: info?.sizeBytes ?? null },
    text: (terminal) => [`Checkpoint ${terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')} is gone.`],
  }
}
