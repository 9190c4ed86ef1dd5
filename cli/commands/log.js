// Draws the history of a session, with its branches and the sessions that were forked from it.

'use strict'

const { SESSION } = require('../input/positionals.js')
const { timeOf } = require('../input/references.js')
const { line } = require('../terminal/lines.js')
const { ago, bytes, count } = require('../terminal/units.js')

const MAX_FORKS = 200

module.exports = {
  name: 'log',
  positionals: [SESSION],
  options: [
    { name: 'limit', short: 'n', value: 'number', description: 'Maximum number of checkpoints.' },
    { name: 'forks', short: 'f', description: 'Draw the checkpoints of forked sessions too, not only their names.' },
  ],
  jsonResult:
    'the result of history(), limited by --limit, with the total; with --forks also forks, the same for each forked session',
  examples: ['waymark log nightly', 'waymark log nightly --forks ./sessions'],
  run,
}

async function run(context) {
  const { limitOption } = require('../input/quantities.js')
  const limit = limitOption(context.options) ?? Infinity
  const store = await context.store()
  const { sessionId } = require('../input/references.js')
  const id = await sessionId(store, context.args.session)
  const history = await readHistory(store, id)
  const forks = context.options.forks ? await forkedHistories(store, history) : []
  const entries = [history, ...forks].flatMap((each) => entriesOf(each, context.options.forks))
  const emptyMessage =
    entries.length === 0 ? await require('../views/agent-table.js').noCheckpointsMessage(store, id) : ''
  const limited = truncateHistory(history, limit)
  return {
    json: context.options.forks ? { ...limited, forks: forks.map((each) => truncateHistory(each, limit)) } : limited,
    text: (terminal) => [
      ...(emptyMessage ? [terminal.paint(emptyMessage)] : graphLines(newestFirst(entries), limit, id, terminal)),
      ...originLine(history, terminal),
      ...(limit < entries.length ? [terminal.paint(`${limit} of ${entries.length} shown`, 'dim')] : []),
    ],
  }
}

/** A session that only agents wrote to has an empty history. */
function readHistory(store, sessionId) {
  return store.history(sessionId).catch((error) => {
    if (error.code !== 'WAYMARK_NOT_FOUND') throw error
    return { sessionId, checkpoints: [], damaged: [] }
  })
}

function truncateHistory(history, limit) {
  const { checkpoints } = history
  return { ...history, total: checkpoints.length, checkpoints: checkpoints.slice(0, limit) }
}

/** The histories of all sessions that were forked from this one, directly or indirectly. */
async function forkedHistories(store, history) {
  const histories = []
  const visited = new Set([history.sessionId])
  const queue = [history]
  while (queue.length > 0 && histories.length < MAX_FORKS) {
    const ids = queue.shift().checkpoints.flatMap(({ forks }) => forks)
    for (const id of ids) {
      if (visited.has(id)) continue
      visited.add(id)
      // Skip a session that was deleted concurrently.
      const fork = await store.history(id).catch(() => undefined)
      if (!fork) continue
      histories.push(fork)
      queue.push(fork)
    }
  }
  return histories
}

/** The entries of the graph: checkpoints, damaged ones, and the name of each fork whose checkpoints are not drawn. */
function entriesOf({ sessionId, forkedFrom, checkpoints, damaged }, withForks) {
  const start = forkedFrom && `${forkedFrom.sessionId}/${forkedFrom.checkpointId}`
  const key = (id) => `${sessionId}/${id}`
  const entries = checkpoints.map((info) => ({
    key: key(info.id),
    // The parent of a fork's first checkpoint is the one that it was forked from.
    parent: info.parent === undefined ? start : key(info.parent),
    time: info.timestamp,
    sessionId,
    info,
  }))
  for (const id of damaged) entries.push({ key: key(id), time: timeOf({ id }), sessionId, damaged: id })
  if (withForks) return entries
  return entries.flatMap((entry) => forksOf(entry).concat(entry))
}

/** A fork is drawn directly above the checkpoint that it starts from. */
function forksOf({ key, time, info }) {
  return (info?.forks ?? []).map((fork) => ({ key: `${fork}/`, parent: key, time, isFork: true, fork }))
}

/** The sort is stable: entries of the same time keep the order of the store, and forks stay above their checkpoint. */
function newestFirst(entries) {
  return entries.toSorted((a, b) => b.time - a.time)
}

/** Lays out the whole graph before it is cut, so that the parents of the last row are not taken for missing. */
function graphLines(entries, limit, sessionId, terminal) {
  const { graphRows } = require('../views/history-graph.js')
  const symbols = (entry) => terminal.glyphs[entry.damaged ? 'damaged' : entry.isFork ? 'fork' : 'commit']
  const rows = graphRows(entries, terminal.glyphs, symbols)
  const end = limit < entries.length ? rows.findIndex(({ entry }) => entry === entries[limit - 1]) + 1 : rows.length
  return rows
    .slice(0, end)
    .map(({ pieces, entry, isParentMissing }) =>
      line(terminal, [...pieces, ...(entry ? entryPieces(entry, sessionId, isParentMissing) : [])]),
    )
}

function entryPieces({ info, damaged, fork, sessionId: owner }, sessionId, isParentMissing) {
  if (fork !== undefined) return [['  forked: '], [fork, 'green']]
  const prefix = owner === sessionId ? '' : `${owner}/`
  if (damaged !== undefined)
    return [
      [`  ${prefix}${damaged}`, 'red'],
      ['  damaged', 'red'],
    ]
  const { id, timestamp, trigger, label, parent, pinned, description, taskCount, sizeBytes } = info
  return [
    [`  ${prefix}`, 'green'],
    [id, 'yellow'],
    [label === undefined ? '' : `  (${label})`, 'cyan'],
    [`  ${ago(timestamp)}  ${trigger}`],
    [`  ${count(taskCount, 'task')}, ${bytes(sizeBytes)}`, 'dim'],
    [pinned ? '  pinned' : '', 'magenta'],
    // The start of a fork is in another session, and not missing.
    [isParentMissing && parent !== undefined ? '  its parent was deleted' : '', 'dim'],
    [description === undefined ? '' : `  ${description}`],
  ]
}

function originLine({ forkedFrom }, terminal) {
  if (!forkedFrom) return []
  return [line(terminal, [[`forked from ${forkedFrom.sessionId}/${forkedFrom.checkpointId}`, 'dim']])]
}
