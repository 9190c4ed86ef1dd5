// The table of a store's sessions.

'use strict'

const { table } = require('../terminal/table.js')
const { age, ago, bytes } = require('../terminal/units.js')
const { damageState } = require('./damage.js')
const { isLeased } = require('./stored-state.js')

/** A table with all columns is about this wide. */
const FULL_WIDTH = 110

const CONCURRENT_READS = 8

/** While a session runs, its newest checkpoint is usually more recent than its document, which may be saved only at the start. */
const RUNNING = new Set([undefined, 'initializing', 'active', 'resuming', 'completing'])

/**
 * The infos of sessions with the status and tasks that `show` would display: `{ infos, total, unread, damageCodes }`. Newest
 * checkpoints are read for at most `timeLimitMs`; `unread` counts the sessions whose checkpoint was not. `cache` holds states that
 * were read before, by session. `damageCodes` are the error codes of session documents that cannot be read, by session.
 */
async function readSessions(store, { limit, timeLimitMs = Infinity, cache = new Map() } = {}) {
  const all = await store.sessionsInfo()
  const infos = all.slice(0, limit)
  const queue = infos
    .filter(({ status, tasks, newestCheckpoint }) => newestCheckpoint && (RUNNING.has(status) || !tasks?.total))
    .toSorted((a, b) => a.newestCheckpoint.timestamp - b.newestCheckpoint.timestamp)
  const end = performance.now() + timeLimitMs
  const reader = async () => {
    while (queue.length > 0 && performance.now() < end) {
      const info = queue.pop()
      const state = await newestState(store, info, cache)
      if (state) mergeState(info, state)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_READS }, reader))
  return { infos, total: all.length, unread: queue.length, damageCodes: await readDamageCodes(store, infos) }
}

async function newestState(store, { id, newestCheckpoint }, cache) {
  const last = cache.get(id)
  if (last?.checkpointId === newestCheckpoint.id) return last.state
  const { stateOf } = require('./stored-state.js')
  const checkpoint = await store.getCheckpoint(id, newestCheckpoint.id).catch(() => null)
  const state = checkpoint && stateOf(checkpoint)
  cache.set(id, { checkpointId: newestCheckpoint.id, state })
  return state
}

/** Neither document nor checkpoint says which of the two is newer: take the one with more finished tasks. */
function mergeState(info, { name, status, tasks }) {
  const saved = info.tasks ?? {}
  if (RUNNING.has(info.status) && finishedTasks(tasks) >= finishedTasks(saved)) {
    info.name ??= name
    info.status = status ?? info.status
    if (tasks.total > 0) info.tasks = tasks
  }
  if (!saved.total) info.tasks = tasks
}

function finishedTasks({ completed = 0, failed = 0 }) {
  return completed + failed
}

/** `SessionInfo.damaged` has no code: loading the document again gives it. */
async function readDamageCodes(store, infos) {
  const codes = new Map()
  for (const { id } of infos.filter(({ damaged }) => damaged)) {
    await store.loadSession(id).catch(({ code }) => codes.set(id, code))
  }
  return codes
}

function sessionTable({ infos, damageCodes }, terminal) {
  const { styleOf } = require('./status-style.js')
  const { taskBar } = require('./task-bar.js')
  const isNarrow = terminal.columns < FULL_WIDTH
  const columns = [
    { title: 'SESSION', minWidth: 20 },
    { title: 'NAME', minWidth: 10, dropPriority: 2, dropFirst: true },
    { title: 'STATUS' },
    { title: 'TASKS' },
    { title: isNarrow ? 'CPS' : 'CHECKPOINTS', alignRight: true },
    { title: 'NEWEST', alignRight: true },
    { title: 'SIZE', alignRight: true },
    { title: 'OWNER', minWidth: 8, dropPriority: 1 },
  ]
  const rows = infos.map((info) => [
    info.id,
    typeof info.name === 'string' && info.name !== info.id ? info.name : '',
    damageCodes.has(info.id)
      ? { text: damageState({ code: damageCodes.get(info.id) }), style: 'red' }
      : { text: info.status, style: styleOf(info.status) },
    taskBar(terminal, isNarrow ? 6 : 16, info.tasks),
    String(info.checkpointCount),
    info.newestCheckpoint ? (isNarrow ? age : ago)(info.newestCheckpoint.timestamp) : '',
    bytes(info.sizeBytes),
    isLeased(info) ? info.lease.owner : '',
  ])
  return table(columns, rows, terminal)
}

module.exports = { readSessions, sessionTable }
