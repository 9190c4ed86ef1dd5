// The sessions of a store, as lists show them.

'use strict'

const { table } = require('./terminal/table.js')
const { ago, bytes, passed } = require('./terminal/units.js')

/** A list with all that is known of sessions takes up about so many columns. */
const WIDE_ENOUGH = 110

const READ_AT_ONCE = 8

/** While somebody works on a session, its checkpoints say more than its document, which some save at the start only. */
const RUNNING = new Set([undefined, 'initializing', 'active', 'resuming', 'completing'])

/**
 * What is known of sessions, as `show` would say it: `{ infos, total, unread }`. The newest checkpoints are read for that, for so
 * long as there is time; `unread` are those that are shown as they were saved. `known` are states that were read before, by session.
 */
async function sessionsOf(store, { limit, patienceMs = Infinity, known = new Map() } = {}) {
  const all = await store.sessionsInfo()
  const infos = all.slice(0, limit)
  const open = infos
    .filter(({ status, tasks, newestCheckpoint }) => newestCheckpoint && (RUNNING.has(status) || !tasks?.total))
    .toSorted((a, b) => a.newestCheckpoint.timestamp - b.newestCheckpoint.timestamp)
  const end = performance.now() + patienceMs
  const reader = async () => {
    while (open.length > 0 && performance.now() < end) {
      const info = open.pop()
      const state = await newestState(store, info, known)
      if (state) complete(info, state)
    }
  }
  await Promise.all(Array.from({ length: READ_AT_ONCE }, reader))
  return { infos, total: all.length, unread: open.length }
}

async function newestState(store, { id, newestCheckpoint }, known) {
  const last = known.get(id)
  if (last?.checkpointId === newestCheckpoint.id) return last.state
  const { stateOf } = require('./state.js')
  const checkpoint = await store.getCheckpoint(id, newestCheckpoint.id).catch(() => null)
  const state = checkpoint && stateOf(checkpoint)
  known.set(id, { checkpointId: newestCheckpoint.id, state })
  return state
}

/** Nobody wrote down which of the two is newer: the one that is further. */
function complete(info, { name, status, tasks }) {
  const saved = info.tasks ?? {}
  if (RUNNING.has(info.status) && doneOf(tasks) >= doneOf(saved)) {
    info.name ??= name
    info.status = status ?? info.status
    if (tasks.total > 0) info.tasks = tasks
  }
  if (!saved.total) info.tasks = tasks
}

function doneOf({ completed = 0, failed = 0 }) {
  return completed + failed
}

/** A session that may not be looked into has a reason too, which is none of damage. */
function conditionIn(reason) {
  return reason.includes(' is damaged: ') ? 'damaged' : 'unreadable'
}

function sessionTable(infos, terminal) {
  const { taskBar } = require('./terminal/bar.js')
  const { styleOf } = require('./terminal/status.js')
  const isNarrow = terminal.columns < WIDE_ENOUGH
  const columns = [
    { title: 'SESSION', least: 20 },
    { title: 'NAME', least: 10, spare: 2, isLuxury: true },
    { title: 'STATUS' },
    { title: 'TASKS' },
    { title: isNarrow ? 'CPS' : 'CHECKPOINTS', right: true },
    { title: 'NEWEST', right: true },
    { title: 'SIZE', right: true },
    { title: 'OWNER', least: 8, spare: 1 },
  ]
  const rows = infos.map((info) => [
    info.id,
    typeof info.name === 'string' && info.name !== info.id ? info.name : '',
    info.damaged
      ? { text: conditionIn(info.damaged), style: 'red' }
      : { text: info.status, style: styleOf(info.status) },
    taskBar(terminal, isNarrow ? 6 : 16, info.tasks),
    String(info.checkpointCount),
    info.newestCheckpoint ? (isNarrow ? passed : ago)(info.newestCheckpoint.timestamp) : '',
    bytes(info.sizeBytes),
    info.lease && info.lease.expiresAt > Date.now() ? info.lease.owner : '',
  ])
  return table(columns, rows, terminal)
}

module.exports = { sessionTable, sessionsOf }
