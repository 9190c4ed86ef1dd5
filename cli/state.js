// What a stored state says, told apart from what it should say: its data may be of any shape.

'use strict'

/** The members of something that should be an object. */
function membersOf(value) {
  return typeof value === 'object' && value !== null ? value : {}
}

/** The tasks of a tree by their ids; what is no object is none. */
function tasksOf(taskTree) {
  const entries = Object.entries(membersOf(taskTree)).filter(([, task]) => typeof task === 'object' && task !== null)
  return new Map(entries)
}

/** How many tasks there are of each kind, as `SessionInfo` counts them. */
function countsOf(tasks) {
  const counts = { total: tasks.size, completed: 0, failed: 0, pending: 0, inProgress: 0 }
  for (const { status } of tasks.values()) {
    if (status === 'completed') counts.completed += 1
    else if (status === 'failed') counts.failed += 1
    else if (status === 'in_progress') counts.inProgress += 1
    else if (status === 'pending') counts.pending += 1
  }
  return counts
}

/** The name, the status and the task counts of a checkpoint. */
function stateOf({ session, taskTree }) {
  const { name, status } = membersOf(session)
  return { name: textOf(name), status: textOf(status), tasks: countsOf(tasksOf(taskTree)) }
}

function textOf(value) {
  return typeof value === 'string' ? value : undefined
}

/** What a table may show of a member: a text or a number. An object would be taken for a cell. */
function shownOf(value) {
  return typeof value === 'string' || typeof value === 'number' ? value : ''
}

module.exports = { countsOf, membersOf, shownOf, stateOf, tasksOf, textOf }
