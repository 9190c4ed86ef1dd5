// What `restore` and `recover` have in common: they replace the state that a session was last saved in.

'use strict'

const { countsOf, stateOf, tasksOf, textOf } = require('./state.js')
const { ago, bytes, count } = require('./terminal/units.js')

const RESET_OPTIONS = [
  { name: 'reset-failed', meaning: 'Send failed tasks back to pending, with their retries and results cleared.' },
  { name: 'reset-in-progress', meaning: 'Send interrupted tasks back to pending.' },
]

function resetsOf(options) {
  return {
    resetFailedTasks: options['reset-failed'] === true,
    resetInProgressTasks: options['reset-in-progress'] === true,
  }
}

/**
 * How many earlier versions of its documents a session has to keep so that none is lost: those that somebody keeps, and at least
 * the one that is replaced. A store that is told less removes them with the next write.
 */
async function versionsToKeep(store, sessionId) {
  const isThere = async (version) => {
    const there = await Promise.all([
      store.loadSession(sessionId, { version }).catch(() => true),
      store.loadTaskTree(sessionId, { version }).catch(() => true),
    ])
    return there.some(Boolean)
  }
  let kept = 0
  while (kept < 1000 && (await isThere(-kept - 1))) kept += 1
  return Math.max(1, kept)
}

/** Asks, and opens the store for somebody who replaces the state of a session and loses nothing by it; `undefined` for a no. */
async function writerFor(call, store, sessionId, lines, question) {
  if (!(await call.mayGoOn(lines, question))) return undefined
  return call.store({ keepPrevious: await versionsToKeep(store, sessionId) })
}

/** The state that will be replaced, in a sentence. */
async function present(store, sessionId) {
  try {
    const [session, taskTree] = await Promise.all([store.loadSession(sessionId), store.loadTaskTree(sessionId)])
    if (!session && !taskTree) return `Session ${sessionId} has no saved state yet.`
    const status = textOf(session?.status) ?? 'without a status'
    return `Session ${sessionId} is ${status} now, with ${tasksDone(countsOf(tasksOf(taskTree)))}; that is replaced.`
  } catch (error) {
    return `The saved state of session ${sessionId} is damaged (${error.message}); it is replaced.`
  }
}

/** What a checkpoint would bring back, in a sentence. */
function promised(id, checkpoint) {
  const { status = 'without a status', tasks } = stateOf(checkpoint)
  const { timestamp, trigger, sizeBytes } = checkpoint
  return `Checkpoint ${id} (${trigger}, ${ago(timestamp)}, ${bytes(sizeBytes)}) comes back: ${status}, with ${tasksDone(tasks)}.`
}

function tasksDone({ total, completed }) {
  return `${completed} of ${count(total, 'task')} done`
}

function resetsSentence({ resetFailedTasks, resetInProgressTasks }) {
  const which = [resetFailedTasks && 'failed', resetInProgressTasks && 'interrupted'].filter(Boolean)
  return which.length > 0 ? [`Tasks that are ${which.join(' or ')} go back to pending.`] : []
}

/** What was done, for people. */
function outcome(terminal, { sessionId, restoredTasks, restoredAgents, warnings }, checkpointId) {
  const facts = `${count(restoredTasks, 'task')}, ${count(restoredAgents, 'agent')}`
  return [
    `Session ${terminal.paint(sessionId, 'bold')} is what ${terminal.paint(checkpointId, 'yellow')} says: ${facts}.`,
    ...warnings.map((warning) => `  ${terminal.paint(warning, 'yellow')}`),
  ]
}

module.exports = { RESET_OPTIONS, outcome, present, promised, resetsOf, resetsSentence, writerFor }
