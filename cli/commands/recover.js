// Restores the newest checkpoint of a session that is whole.

'use strict'

const { failure } = require('../cli-error.js')
const { SESSION } = require('../input/positionals.js')
const { damageLine, damageState } = require('../views/damage.js')
const { RESET_OPTIONS, confirmAndReplace, resetFlags, restoredLines } = require('./shared/replace-state.js')
const { assertSuccess } = require('./shared/result.js')

module.exports = {
  name: 'recover',
  positionals: [SESSION],
  options: [
    ...RESET_OPTIONS,
    {
      name: 'quarantine',
      description: 'Move damaged checkpoints into damaged/ of the session. Nothing is deleted.',
    },
  ],
  isDestructive: true,
  notes: ['It replaces the saved session and task tree atomically; one earlier version of both is kept.'],
  jsonResult: 'the result of recoverSession()',
  examples: ['waymark recover nightly', 'waymark recover nightly --reset-in-progress --quarantine --yes'],
  run,
}

async function run(context) {
  const references = require('../input/references.js')
  const { unleasedSession } = require('./shared/lease.js')
  const store = await context.store()
  const sessionId = await references.sessionId(store, context.args.session)
  await unleasedSession(store, sessionId)
  const quarantine = context.options.quarantine === true
  const plan = await store.recoverSession(sessionId, { ...resetFlags(context.options), quarantine, dryRun: true })
  assertRecoverable(sessionId, plan)
  const { checkpointId, passedOver } = assertSuccess(plan)
  const notes = passedOver.map(
    (item) =>
      `Checkpoint ${item.id}, which is ${damageState(item)}, will be ${quarantine ? 'quarantined' : 'skipped'}: ` +
      `${damageLine(item, 'it')}.`,
  )
  const change = { sessionId, checkpointId, notes, question: 'Recover it?' }
  const result = await confirmAndReplace(context, store, change, (writer, resets) =>
    writer.recoverSession(sessionId, { ...resets, quarantine }),
  )
  if (!result) return context.declined()
  return {
    json: result,
    text: (terminal) => [
      ...restoredLines(terminal, result, result.checkpointId),
      ...result.passedOver.map(({ id, movedTo }) =>
        terminal.paint(`  skipped ${id}${movedTo ? `, moved to ${belowSession(movedTo)}` : ''}`, 'red'),
      ),
    ],
  }
}

/** The path within the session: `damaged/` and the file name. */
function belowSession(path) {
  return path.split(/[/\\]/).slice(-2).join('/')
}

/** Fails if there are no checkpoints, or only damaged ones. An unreadable checkpoint is another error: it may be whole. */
function assertRecoverable(sessionId, { code, passedOver }) {
  if (code !== 'WAYMARK_NOT_FOUND') return
  const why = passedOver.length === 0 ? 'has no checkpoints' : 'has no checkpoint that is whole'
  throw failure(
    `Session ${sessionId} ${why}, and cannot be recovered.`,
    passedOver.map((item) => damageLine(item, item.id)),
  )
}
