// Gives a checkpoint a name to find it by.

'use strict'

const { wrongUse } = require('../complaint.js')

module.exports = {
  name: 'label',
  positionals: [
    { name: 'session/checkpoint', meaning: 'Which one: an id, a beginning, a label, latest, latest~2.' },
    { name: 'label', optional: true, meaning: 'The name. Leave it out with --remove.' },
  ],
  options: [
    { name: 'unique', short: 'u', meaning: 'Refuse a label that another checkpoint of the session has.' },
    { name: 'remove', meaning: 'Take the label away.' },
  ],
  /** The words that an option leaves no place for. */
  isWithout: ({ remove }) => (remove ? ['label'] : []),
  advice: { WAYMARK_EXISTS: 'Choose another label, or remove that one first.' },
  document: '{ sessionId, checkpointId, label, previous }',
  examples: ['waymark label nightly/latest before-tests', 'waymark label nightly/before-tests --remove'],
  run,
}

async function run(call) {
  const { checkpoint, isLatest } = require('../references.js')
  const { succeeded } = require('../results.js')
  const { unique, remove } = call.options
  const label = remove ? null : call.words.label
  if (label === undefined) throw wrongUse('The command label needs a label, or --remove. See waymark label --help.')
  if (label !== null && isLatest(label)) {
    throw wrongUse(`${label} always counts back from the newest checkpoint: choose another label.`)
  }
  const store = await call.store()
  const { sessionId, checkpointId, info } = await checkpoint(store, call.words['session/checkpoint'])
  succeeded(await store.labelCheckpoint(sessionId, checkpointId, label, unique ? { unique } : undefined))
  return {
    json: { sessionId, checkpointId, label, previous: info?.label ?? null },
    text(terminal) {
      const name = terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')
      return [label === null ? `${name} has no label.` : `${name} is labelled ${terminal.paint(label, 'cyan')}.`]
    },
  }
}
