// Sets or removes the label of a checkpoint.

'use strict'

const { usageError } = require('../cli-error.js')
const { CHECKPOINT } = require('../input/positionals.js')

module.exports = {
  name: 'label',
  positionals: [
    CHECKPOINT,
    { name: 'label', optional: true, description: 'The new label. Leave it out with --remove.' },
  ],
  options: [
    { name: 'unique', short: 'u', description: 'Fail if another checkpoint of the session has this label.' },
    { name: 'remove', description: 'Remove the label.' },
  ],
  /** The positional arguments that an option excludes. */
  omittedPositionals: ({ remove }) => (remove ? ['label'] : []),
  advice: { WAYMARK_EXISTS: 'Choose another label, or remove the existing one first.' },
  jsonResult: '{ sessionId, checkpointId, label, previous }',
  examples: ['waymark label nightly/latest before-tests', 'waymark label nightly/before-tests --remove'],
  run,
}

async function run(context) {
  const { checkpoint, isLatest } = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const { assertSuccess } = require('./shared/result.js')
  const { unique, remove } = context.options
  const label = remove ? null : context.args.label
  if (label === undefined) throw usageError('The command label needs a label, or --remove. See waymark label --help.')
  if (label !== null && isLatest(label)) {
    throw usageError(`${label} is reserved: it counts back from the newest checkpoint. Choose another label.`)
  }
  const store = await context.store()
  const { sessionId, checkpointId, info } = await checkpoint(store, context.args['session/checkpoint'])
  await unleasedSession(store, sessionId)
  assertSuccess(await store.labelCheckpoint(sessionId, checkpointId, label, unique ? { unique } : undefined))
  return {
    json: { sessionId, checkpointId, label, previous: info?.label ?? null },
    text(terminal) {
      const name = terminal.paint(`${sessionId}/${checkpointId}`, 'yellow')
      return [
        label === null ? `Removed the label of ${name}.` : `Labelled ${name} as ${terminal.paint(label, 'cyan')}.`,
      ]
    },
  }
}
