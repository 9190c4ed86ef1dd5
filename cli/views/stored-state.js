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

const MEMBERS = { completed: 'completed', failed: 'failed', in_progress: 'inProgress', pending: 'pending' }
/** Statuses that `SessionInfo` does not count; whatever else there is, is `other`. */
const RARE = ['blocked', 'queued', 'verifying', 'rework', 'cancelled', 'other']

/** How many tasks there are of each kind: as `SessionInfo` counts them, and those that it leaves out. */
function countsOf(tasks) {
  const counts = { total: tasks.size, completed: 0, failed: 0, pending: 0, inProgress: 0 }
  for (const status of RARE) counts[status] = 0
  for (const { status } of tasks.values()) {
    const known = Object.hasOwn(MEMBERS, String(status)) ? MEMBERS[status] : status
    counts[Object.hasOwn(counts, String(known)) && known !== 'total' ? known : 'other'] += 1
  }
  return counts
}

/** `3 blocked`, `1 cancelled`: what nobody should have to guess from what is missing. */
function rareOnes(counts) {
  return RARE.filter((status) => counts[status] > 0).map((status) => `${counts[status]} ${status}`)
}

/** The name, the status and the task counts of a checkpoint, as `SessionInfo` has them. */
function stateOf({ session, taskTree }) {
  const { name, status } = membersOf(session)
  const { total, completed, failed, pending, inProgress } = countsOf(tasksOf(taskTree))
  return { name: textOf(name), status: textOf(status), tasks: { total, completed, failed, pending, inProgress } }
}

function textOf(value) {
  return typeof value === 'string' ? value : undefined
}

/** What a table may show of a member: a text or a number. An object would be taken for a cell. */
function shownOf(value) {
  return typeof value === 'string' || typeof value === 'number' ? value : ''
}

module.exports = { countsOf, membersOf, rareOnes, shownOf, stateOf, tasksOf, textOf }
