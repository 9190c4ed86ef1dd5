// Reads stored states defensively: stored data may have any shape.

'use strict'

/** The value if it is an object, otherwise an empty one. */
function asObject(value) {
  return typeof value === 'object' && value !== null ? value : {}
}

/** The tasks of a tree by id; entries that are not objects are left out. */
function tasksOf(taskTree) {
  const entries = Object.entries(asObject(taskTree)).filter(([, task]) => typeof task === 'object' && task !== null)
  return new Map(entries)
}

const MEMBERS = { completed: 'completed', failed: 'failed', in_progress: 'inProgress', pending: 'pending' }
/** Statuses that `SessionInfo` does not count; any unknown status counts as `other`. */
const UNCOMMON = ['blocked', 'queued', 'verifying', 'rework', 'cancelled', 'other']

/** Counts tasks by status: those of `SessionInfo`, and the uncommon ones. */
function countTasks(tasks) {
  const counts = { total: tasks.size, completed: 0, failed: 0, pending: 0, inProgress: 0 }
  for (const status of UNCOMMON) counts[status] = 0
  for (const { status } of tasks.values()) {
    const member = Object.hasOwn(MEMBERS, String(status)) ? MEMBERS[status] : status
    counts[Object.hasOwn(counts, String(member)) && member !== 'total' ? member : 'other'] += 1
  }
  return counts
}

/** `3 blocked`, `1 cancelled`: the statuses that explain why the other counts do not add up. */
function uncommonStatuses(counts) {
  return UNCOMMON.filter((status) => counts[status] > 0).map((status) => `${counts[status]} ${status}`)
}

/** The name, the status and the task counts of a checkpoint, in the shape of `SessionInfo`. */
function stateOf({ session, taskTree }) {
  const { name, status } = asObject(session)
  const { total, completed, failed, pending, inProgress } = countTasks(tasksOf(taskTree))
  return { name: asString(name), status: asString(status), tasks: { total, completed, failed, pending, inProgress } }
}

function asString(value) {
  return typeof value === 'string' ? value : undefined
}

/** A string or number for a table; anything else becomes empty, because a table takes an object for a cell. */
function displayValue(value) {
  return typeof value === 'string' || typeof value === 'number' ? value : ''
}

/** Whether the lease of a `SessionInfo` is in force. */
function isLeased({ lease }) {
  return Boolean(lease) && lease.expiresAt > Date.now()
}

module.exports = { asObject, asString, countTasks, displayValue, isLeased, stateOf, tasksOf, uncommonStatuses }
