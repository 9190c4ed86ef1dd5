// The history of a session, with its branches and the sessions that were forked from it, drawn.

'use strict'

const { timeOf } = require('../references.js')
const { line } = require('../terminal/lines.js')
const { ago, bytes, count } = require('../terminal/units.js')

const FORKS_AT_MOST = 200

module.exports = {
  name: 'log',
  positionals: [{ name: 'session', meaning: 'An id, or a unique beginning of one.' }],
  options: [
    { name: 'limit', short: 'n', value: 'number', meaning: 'So many checkpoints at most.' },
    { name: 'forks', short: 'f', meaning: 'Draw the checkpoints of the forked sessions too, not only their names.' },
  ],
  document:
    'what history() gives, no more checkpoints than --limit says, and their total; with --forks also forks, the same of each forked session',
  examples: ['waymark log nightly', 'waymark log nightly --forks ./sessions'],
  run,
}

async function run(call) {
  const { wholeNumber } = require('../quantities.js')
  const limit = call.options.limit === undefined ? Infinity : wholeNumber('--limit', call.options.limit, 1)
  const store = await call.store()
  const { sessionId } = require('../references.js')
  const id = await sessionId(store, call.words.session)
  const history = await historyOf(store, id)
  const forks = call.options.forks ? await forkedHistories(store, history) : []
  const entries = [history, ...forks].flatMap((each) => entriesOf(each, call.options.forks))
  const none = entries.length === 0 ? await require('../agents.js').noneBut(store, id) : ''
  const document = limited(history, limit)
  return {
    json: call.options.forks ? { ...document, forks: forks.map((each) => limited(each, limit)) } : document,
    text: (terminal) => [
      ...(none ? [terminal.paint(none)] : drawn(newestFirst(entries), limit, id, terminal)),
      ...origin(history, terminal),
      ...(limit < entries.length ? [terminal.paint(`${limit} of ${entries.length} shown`, 'dim')] : []),
    ],
  }
}

/** A session of which only agents stored anything has a history without anything in it. */
function historyOf(store, sessionId) {
  return store.history(sessionId).catch((error) => {
    if (error.code !== 'WAYMARK_NOT_FOUND') throw error
    return { sessionId, checkpoints: [], damaged: [] }
  })
}

function limited(history, limit) {
  const { checkpoints } = history
  return { ...history, total: checkpoints.length, checkpoints: checkpoints.slice(0, limit) }
}

/** The histories of the sessions that were forked from this one, and from those. */
async function forkedHistories(store, history) {
  const histories = []
  const known = new Set([history.sessionId])
  const open = [history]
  while (open.length > 0 && histories.length < FORKS_AT_MOST) {
    const ids = open.shift().checkpoints.flatMap(({ forks }) => forks)
    for (const id of ids) {
      if (known.has(id)) continue
      known.add(id)
      // A session that was removed meanwhile is none.
      const fork = await store.history(id).catch(() => undefined)
      if (!fork) continue
      histories.push(fork)
      open.push(fork)
    }
  }
  return histories
}

/** What is drawn of a history: checkpoints, damaged ones, and a name for each fork that is not drawn itself. */
function entriesOf({ sessionId, forkedFrom, checkpoints, damaged }, withForks) {
  const start = forkedFrom && `${forkedFrom.sessionId}/${forkedFrom.checkpointId}`
  const key = (id) => `${sessionId}/${id}`
  const entries = checkpoints.map((info) => ({
    key: key(info.id),
    // The first checkpoint of a fork grows from where it was forked.
    parent: info.parent === undefined ? start : key(info.parent),
    time: info.timestamp,
    sessionId,
    info,
  }))
  for (const id of damaged) entries.push({ key: key(id), time: timeOf({ id }), sessionId, damaged: id })
  if (withForks) return entries
  return entries.flatMap((entry) => forksOf(entry).concat(entry))
}

/** A fork stands right above where it begins. */
function forksOf({ key, time, info }) {
  return (info?.forks ?? []).map((fork) => ({ key: `${fork}/`, parent: key, time, isFork: true, fork }))
}

/** Those of one time stay as they are: in the order of the store, with each fork above where it begins. */
function newestFirst(entries) {
  return entries.toSorted((a, b) => b.time - a.time)
}

/** The whole graph is laid out, however much of it is shown: what is further down is not gone. */
function drawn(entries, limit, sessionId, terminal) {
  const { graphOf } = require('../terminal/graph.js')
  const signs = (entry) => terminal.glyphs[entry.damaged ? 'damaged' : entry.isFork ? 'fork' : 'commit']
  const rows = graphOf(entries, terminal.glyphs, signs)
  const end = limit < entries.length ? rows.findIndex(({ entry }) => entry === entries[limit - 1]) + 1 : rows.length
  return rows
    .slice(0, end)
    .map(({ pieces, entry, isParentGone }) =>
      line(terminal, [...pieces, ...(entry ? wordsOf(entry, sessionId, isParentGone) : [])]),
    )
}

function wordsOf({ info, damaged, fork, sessionId: owner }, sessionId, isParentGone) {
  if (fork !== undefined) return [['  forked: '], [fork, 'green']]
  const whose = owner === sessionId ? '' : `${owner}/`
  if (damaged !== undefined)
    return [
      [`  ${whose}${damaged}`, 'red'],
      ['  damaged', 'red'],
    ]
  const { id, timestamp, trigger, label, parent, pinned, description, taskCount, sizeBytes } = info
  return [
    [`  ${whose}`, 'green'],
    [id, 'yellow'],
    [label === undefined ? '' : `  (${label})`, 'cyan'],
    [`  ${ago(timestamp)}  ${trigger}`],
    [`  ${count(taskCount, 'task')}, ${bytes(sizeBytes)}`, 'dim'],
    [pinned ? '  pinned' : '', 'magenta'],
    // What a fork grew from is another session's.
    [isParentGone && parent !== undefined ? '  its parent is gone' : '', 'dim'],
    [description === undefined ? '' : `  ${description}`],
  ]
}

function origin({ forkedFrom }, terminal) {
  if (!forkedFrom) return []
  return [line(terminal, [[`forked from ${forkedFrom.sessionId}/${forkedFrom.checkpointId}`, 'dim']])]
}
