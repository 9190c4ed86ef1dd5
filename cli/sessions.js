// The sessions of a store, as lists show them.

'use strict'

const { table } = require('./terminal/table.js')
const { ago, bytes, passed } = require('./terminal/units.js')

/** How many sessions without a document of their own have their newest checkpoint read, for what a list shows of it. */
const READ_AT_MOST = 50

/** A list with all that is known of sessions takes up about so many columns. */
const WIDE_ENOUGH = 110

async function sessionsOf(store, limit) {
  const infos = (await store.sessionsInfo()).slice(0, limit)
  await completed(store, infos)
  return infos
}

/** What the document of a session does not say, or was never there to say, its newest checkpoint may. */
async function completed(store, infos) {
  const silent = infos.filter(({ status, tasks, newestCheckpoint }) => newestCheckpoint && !(status && tasks?.total))
  const newest = silent.toSorted((a, b) => b.newestCheckpoint.timestamp - a.newestCheckpoint.timestamp)
  for (const info of newest.slice(0, READ_AT_MOST)) {
    const { stateOf } = require('./state.js')
    const checkpoint = await store.getCheckpoint(info.id, info.newestCheckpoint.id).catch(() => null)
    if (!checkpoint) continue
    const { name, status, tasks } = stateOf(checkpoint)
    Object.assign(info, { name: info.name ?? name, status: info.status ?? status, tasks })
  }
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
    info.damaged ? { text: 'damaged', style: 'red' } : { text: info.status, style: styleOf(info.status) },
    taskBar(terminal, isNarrow ? 6 : 16, info.tasks),
    String(info.checkpointCount),
    info.newestCheckpoint ? (isNarrow ? passed : ago)(info.newestCheckpoint.timestamp) : '',
    bytes(info.sizeBytes),
    info.lease && info.lease.expiresAt > Date.now() ? info.lease.owner : '',
  ])
  return table(columns, rows, terminal)
}

module.exports = { sessionTable, sessionsOf }
