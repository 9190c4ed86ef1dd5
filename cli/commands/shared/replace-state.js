// What `restore` and `recover` share: they replace the saved state of a session.

'use strict'

const { readCheckpoint } = require('../../input/references.js')
const { ago, bytes, count } = require('../../terminal/units.js')
const { asString, countTasks, stateOf, tasksOf } = require('../../views/stored-state.js')
const { assertSuccess } = require('./result.js')

const RESET_OPTIONS = [
  { name: 'reset-failed', description: 'Reset failed tasks to pending; clears their retries and results.' },
  { name: 'reset-in-progress', description: 'Reset interrupted tasks to pending.' },
]

/** The reset options as the methods of the store take them. */
function resetFlags(options) {
  return {
    resetFailedTasks: options['reset-failed'] === true,
    resetInProgressTasks: options['reset-in-progress'] === true,
  }
}

/**
 * How many earlier versions of its documents a session has to keep so that none is lost: those that exist, and at least the one
 * that is replaced. A store with a smaller `keepPrevious` deletes the others with the next write.
 */
async function versionsToKeep(store, sessionId) {
  const exists = async (version) => {
    const documents = await Promise.all([
      store.loadSession(sessionId, { version }).catch(() => true),
      store.loadTaskTree(sessionId, { version }).catch(() => true),
    ])
    return documents.some(Boolean)
  }
  let kept = 0
  while (kept < 1000 && (await exists(-kept - 1))) kept += 1
  return Math.max(1, kept)
}

/**
 * Describes the planned change, asks for confirmation, and runs `write(store, resets)` on a store that keeps all earlier versions of
 * the session. Returns its result; `undefined` if the user declined.
 */
async function confirmAndReplace(context, store, { sessionId, checkpointId, notes = [], question }, write) {
  const resets = resetFlags(context.options)
  const lines = [
    ...notes,
    describeCheckpoint(checkpointId, await readCheckpoint(store, { sessionId, checkpointId })),
    await describeSavedState(store, sessionId),
    ...describeResets(resets),
  ]
  if (!(await context.confirm(lines, question))) return undefined
  const writer = await context.store({ keepPrevious: await versionsToKeep(store, sessionId) })
  return assertSuccess(await write(writer, resets))
}

/** One sentence on the state that will be replaced. */
async function describeSavedState(store, sessionId) {
  try {
    const [session, taskTree] = await Promise.all([store.loadSession(sessionId), store.loadTaskTree(sessionId)])
    if (!session && !taskTree) return `Session ${sessionId} has no saved state yet.`
    const status = asString(session?.status) ?? 'without a status'
    const tasks = completedTasks(countTasks(tasksOf(taskTree)))
    return `This replaces the saved state of session ${sessionId}: ${status}, ${tasks}.`
  } catch (error) {
    return `This replaces the saved state of session ${sessionId}, which is damaged (${error.message}).`
  }
}

/** One sentence on the checkpoint that will be restored. */
function describeCheckpoint(id, checkpoint) {
  const { status = 'without a status', tasks } = stateOf(checkpoint)
  const { timestamp, trigger, sizeBytes } = checkpoint
  const origin = `${trigger}, ${ago(timestamp)}, ${bytes(sizeBytes)}`
  return `Checkpoint ${id} (${origin}) will be restored: ${status}, ${completedTasks(tasks)}.`
}

function completedTasks({ total, completed }) {
  return `${completed} of ${count(total, 'task')} completed`
}

function describeResets({ resetFailedTasks, resetInProgressTasks }) {
  const statuses = [resetFailedTasks && 'failed', resetInProgressTasks && 'interrupted'].filter(Boolean)
  return statuses.length > 0 ? [`Tasks that are ${statuses.join(' or ')} will be reset to pending.`] : []
}

/** The result of a restore, as text. */
function restoredLines(terminal, { sessionId, restoredTasks, restoredAgents, warnings }, checkpointId) {
  const counts = `${count(restoredTasks, 'task')}, ${count(restoredAgents, 'agent')}`
  return [
    `Restored session ${terminal.paint(sessionId, 'bold')} from ${terminal.paint(checkpointId, 'yellow')}: ${counts}.`,
    ...warningLines(terminal, warnings),
  ]
}

function warningLines(terminal, warnings) {
  return warnings.map((warning) => `  ${terminal.paint(warning, 'yellow')}`)
}

module.exports = { RESET_OPTIONS, confirmAndReplace, resetFlags, restoredLines, warningLines }
