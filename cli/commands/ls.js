// The sessions of a store, or the checkpoints of one of them.

'use strict'

const { table } = require('../terminal/table.js')
const { bytes, moment, passed } = require('../terminal/units.js')

const CHECKED_AT_ONCE = 8
/** A table that takes longer is not worth waiting for. */
const PATIENCE_MS = 400
/** A list with all that is known of checkpoints takes up about so many columns. */
const WIDE_ENOUGH = 125

module.exports = {
  name: 'ls',
  positionals: [
    {
      name: 'session',
      optional: true,
      meaning: 'Show its checkpoints. A single word that begins like a location is one.',
    },
  ],
  options: [
    { name: 'limit', short: 'n', value: 'number', meaning: 'So many lines at most; of checkpoints, the newest.' },
    { name: 'quick', short: 'q', meaning: 'Do not read checkpoints to find out whether they are whole.' },
    { name: 'agents', short: 'a', meaning: 'Show the checkpoints of the agents of the session instead.' },
  ],
  notes: ['Exits with 0 whatever state checkpoints are in: waymark verify answers with its exit code.'],
  document:
    '{ location, total, sessions } as sessionsInfo() gives them, with status and tasks of the newest checkpoint where it is further than what was saved; of a session { sessionId, total, checkpoints } as listCheckpointInfo() gives them, each with whole, and error and code if it is not; with --agents { sessionId, agents }',
  examples: ['waymark ls', 'waymark ls ./sessions', 'waymark ls nightly', 'waymark ls nightly --limit 10 --json'],
  run,
}

async function run(call) {
  const { session } = call.words
  const limit = limitOf(call.options)
  const store = await call.store()
  if (session === undefined) return sessions(call, store, limit)
  const { sessionId } = require('../references.js')
  const id = await sessionId(store, session)
  return call.options.agents ? agents(store, id, limit) : checkpoints(call, store, id, limit)
}

function limitOf({ limit }) {
  if (limit === undefined) return undefined
  const { wholeNumber } = require('../quantities.js')
  return wholeNumber('--limit', limit, 1)
}

async function sessions(call, store, limit) {
  const { sessionTable, sessionsOf } = require('../sessions.js')
  const patienceMs = call.options.json ? Infinity : PATIENCE_MS
  const { infos, total, unread } = await sessionsOf(store, { limit, patienceMs })
  return {
    json: { location: store.getBaseDir(), total, sessions: infos },
    text(terminal) {
      if (infos.length === 0) return [`No sessions in ${terminal.paint(store.getBaseDir())}.`]
      const lines = sessionTable(infos, terminal)
      if (infos.length < total) lines.push(terminal.paint(`${infos.length} of ${total} sessions`, 'dim'))
      if (unread > 0) lines.push(`${unread} of them as they were last saved, to save time; --json reads them all.`)
      return lines
    },
  }
}

async function checkpoints(call, store, id, limit) {
  const { checkpointsOf } = require('../references.js')
  const all = await checkpointsOf(store, id)
  const listed = all.slice(0, limit)
  const verdicts = call.options.quick ? new Map() : await verdictsOn(call, store, id, listed)
  const entries = listed.map(({ id: checkpointId, info, damaged }) => ({
    ...(info ?? { id: checkpointId }),
    ...wholeness(damaged ?? verdicts.get(checkpointId), damaged),
  }))
  const isDamaged = entries.some(({ whole }) => whole === false)
  const none = all.length === 0 ? await require('../agents.js').noneBut(store, id) : ''
  return {
    json: { sessionId: id, total: all.length, checkpoints: entries },
    text(terminal) {
      if (entries.length === 0) return [terminal.paint(none)]
      const lines = checkpointTable(entries, all, terminal)
      if (listed.length < all.length) lines.push(terminal.paint(`${listed.length} of ${all.length} checkpoints`, 'dim'))
      if (isDamaged) lines.push('', ...damageReport(store, id, entries, terminal))
      return lines
    },
  }
}

/** Reads checkpoints, a few at once, and says of each whether it is whole. */
async function verdictsOn(call, store, session, listed) {
  const readable = listed.filter(({ info }) => info)
  const verdicts = new Map()
  const total = readable.length
  await call.work({ title: 'Checking', whole: 'ls only reads.', isQuiet: true }, async ({ onProgress, signal }) => {
    let next = 0
    let read = 0
    const worker = async () => {
      while (next < total && !signal.aborted) {
        const { id, info } = readable[next]
        next += 1
        // One that retention has removed meanwhile is nobody's damage.
        const verdict = await store.verifyCheckpoint(session, id).catch((error) => {
          if (error.code === 'WAYMARK_NOT_FOUND') return undefined
          throw error
        })
        verdicts.set(id, verdict)
        read += info.sizeBytes
        onProgress({ phase: 'verify', done: verdicts.size, total, bytes: read })
      }
    }
    await Promise.all(Array.from({ length: CHECKED_AT_ONCE }, worker))
    signal.throwIfAborted()
  })
  return verdicts
}

function wholeness(verdict, isUnreadable) {
  if (!verdict) return {}
  if (verdict.whole && !isUnreadable) return { whole: true }
  return { whole: false, error: verdict.error, code: verdict.code }
}

function checkpointTable(entries, all, terminal) {
  const isNarrow = terminal.columns < WIDE_ENOUGH
  const places = new Map(all.map(({ id }, index) => [id, index]))
  const columns = [
    ...(isNarrow ? [{ title: '~', right: true }] : []),
    { title: 'CHECKPOINT' },
    { title: 'WHEN', spare: 4, isLuxury: true },
    { title: 'AGO', right: true },
    { title: 'TRIGGER', least: 7, spare: 2 },
    { title: 'LABEL', least: 6, spare: 1 },
    { title: 'PARENT', least: 6, spare: 3 },
    { title: 'SIZE', right: true },
    { title: 'CODEC' },
    { title: 'STATE' },
  ]
  const rows = entries.map((entry, index) => [
    ...(isNarrow ? [index] : []),
    entry.id,
    entry.timestamp === undefined ? '' : moment(entry.timestamp).slice(isNarrow ? 5 : 0),
    entry.timestamp === undefined ? '' : passed(entry.timestamp),
    entry.trigger,
    { text: entry.label, style: 'cyan' },
    // Where there is no room for another id, its place in the list: what `latest~2` says.
    { text: isNarrow && places.has(entry.parent) ? `~${places.get(entry.parent)}` : entry.parent, style: 'dim' },
    entry.sizeBytes === undefined ? '' : bytes(entry.sizeBytes),
    entry.encoding,
    stateCell(entry),
  ])
  return table(columns, rows, terminal)
}

function stateCell({ whole, pinned, code }) {
  const pin = pinned ? ', pinned' : ''
  if (whole === undefined) return { text: pinned ? 'pinned' : '' }
  if (whole) return { text: `whole${pin}`, style: 'green' }
  const { conditionOf } = require('../damage.js')
  return { text: `${conditionOf({ code })}${pin}`, style: 'red' }
}

function damageReport(store, session, entries, terminal) {
  const { commandLine } = require('../command-line.js')
  const { reasonOf, tally } = require('../damage.js')
  const { line } = require('../terminal/lines.js')
  const damaged = entries.filter(({ whole }) => whole === false)
  return [
    terminal.paint(`${tally(damaged)}; ${commandLine(store, 'verify', [session])} says what helps.`),
    // The path would leave no room for what is wrong; waymark verify has both.
    ...damaged.map(({ id, error }) => line(terminal, [[`  ${id}: ${reasonOf(error)}`]])),
  ]
}

async function agents(store, session, limit) {
  const { agentTable, listsOf } = require('../agents.js')
  const lists = await listsOf(store, session, limit)
  return {
    json: { sessionId: session, agents: lists },
    text: (terminal) =>
      lists.length === 0
        ? [`No agent of session ${terminal.paint(session)} has checkpoints of its own.`]
        : agentTable(lists, terminal),
  }
}
