// The sessions of a store, or the checkpoints of one of them.

'use strict'

const { table } = require('../terminal/table.js')
const { ago, bytes, count, moment } = require('../terminal/units.js')

/** How many sessions without a document of their own have their newest checkpoint read, for what a list shows of it. */
const READ_AT_MOST = 50
const CHECKED_AT_ONCE = 8
/** A list of checkpoints with all that is known of them takes up about so many columns. */
const WIDE_ENOUGH = 118

module.exports = {
  name: 'ls',
  summary: 'The sessions of a store, or the checkpoints of one.',
  positionals: [
    {
      name: 'session',
      optional: true,
      meaning: 'Show its checkpoints. A single word that begins like a location is one.',
    },
  ],
  options: [
    { name: 'limit', short: 'n', value: 'number', meaning: 'So many checkpoints at most, the newest first.' },
    { name: 'quick', short: 'q', meaning: 'Do not read checkpoints to find out whether they are whole.' },
    { name: 'agents', short: 'a', meaning: 'Show the checkpoints of the agents of the session instead.' },
  ],
  examples: ['waymark ls', 'waymark ls ./sessions', 'waymark ls nightly', 'waymark ls nightly --limit 10 --json'],
  run,
}

async function run(call) {
  const { session } = call.words
  const { wholeNumber } = require('../quantities.js')
  const limit = call.options.limit === undefined ? undefined : wholeNumber('--limit', call.options.limit)
  const store = await call.store()
  if (session === undefined) return sessions(store, limit)
  const { sessionId } = require('../references.js')
  const id = await sessionId(store, session)
  return call.options.agents ? agents(store, id, limit) : checkpoints(call, store, id, limit)
}

async function sessions(store, limit) {
  const infos = (await store.sessionsInfo()).slice(0, limit)
  await completed(store, infos)
  return {
    json: { location: store.getBaseDir(), sessions: infos },
    text: (terminal) =>
      infos.length === 0 ? [`No sessions in ${terminal.paint(store.getBaseDir())}.`] : sessionTable(infos, terminal),
  }
}

/** What the document of a session does not say, or was never there to say, its newest checkpoint may. */
async function completed(store, infos) {
  const silent = infos.filter(({ status, tasks, newestCheckpoint }) => newestCheckpoint && !(status && tasks?.total))
  const newest = silent.toSorted((a, b) => b.newestCheckpoint.timestamp - a.newestCheckpoint.timestamp)
  for (const info of newest.slice(0, READ_AT_MOST)) {
    const { stateOf } = require('../state.js')
    const checkpoint = await store.getCheckpoint(info.id, info.newestCheckpoint.id).catch(() => null)
    if (!checkpoint) continue
    const { name, status, tasks } = stateOf(checkpoint)
    Object.assign(info, { name: info.name ?? name, status: info.status ?? status, tasks })
  }
}

function sessionTable(infos, terminal) {
  const { taskBar } = require('../terminal/bar.js')
  const { styleOf } = require('../terminal/status.js')
  const barWidth = terminal.columns >= 110 ? 16 : 8
  const columns = [
    { title: 'SESSION', least: 12 },
    { title: 'NAME', least: 10, spare: 3 },
    { title: 'STATUS', least: 6 },
    { title: 'TASKS', least: 9 },
    { title: 'CHECKPOINTS', right: true, least: 6 },
    { title: 'NEWEST', least: 8, right: true },
    { title: 'SIZE', right: true },
    { title: 'OWNER', least: 8, spare: 1 },
  ]
  const rows = infos.map((info) => [
    info.id,
    info.name === info.id ? '' : info.name,
    info.damaged ? { text: 'damaged', style: 'red' } : { text: info.status, style: styleOf(info.status) },
    taskBar(terminal, barWidth, info.tasks),
    String(info.checkpointCount),
    info.newestCheckpoint ? ago(info.newestCheckpoint.timestamp) : '',
    bytes(info.sizeBytes),
    info.lease && info.lease.expiresAt > Date.now() ? info.lease.owner : '',
  ])
  return table(columns, rows, terminal)
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
  return {
    json: { sessionId: id, total: all.length, checkpoints: entries },
    text(terminal) {
      if (entries.length === 0) return [`Session ${terminal.paint(id)} has no checkpoints.`]
      const lines = checkpointTable(entries, terminal)
      if (listed.length < all.length) lines.push(terminal.paint(`${listed.length} of ${all.length} checkpoints`, 'dim'))
      if (isDamaged) lines.push('', ...damageReport(entries, terminal))
      return lines
    },
  }
}

/** Reads checkpoints, a few at once, and says of each whether it is whole. */
async function verdictsOn(call, store, session, listed) {
  const readable = listed.filter(({ info }) => info)
  const verdicts = new Map()
  const total = readable.length
  await call.work({ title: 'Checking', isQuiet: true }, async ({ onProgress, signal }) => {
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

function checkpointTable(entries, terminal) {
  const isNarrow = terminal.columns < WIDE_ENOUGH
  const places = new Map(entries.map(({ id }, index) => [id, index]))
  const columns = [
    ...(isNarrow ? [{ title: '~', right: true }] : []),
    { title: 'CHECKPOINT', least: 12 },
    { title: 'WHEN', spare: 4 },
    { title: 'AGO', right: true },
    { title: 'TRIGGER', least: 7, spare: 2 },
    { title: 'LABEL', least: 6, spare: 1 },
    { title: 'PARENT', least: 6, spare: 3 },
    { title: 'SIZE', right: true },
    { title: 'CODEC' },
    { title: 'STATE', least: 7 },
  ]
  const rows = entries.map((entry, index) => [
    ...(isNarrow ? [index] : []),
    entry.id,
    entry.timestamp === undefined ? '' : moment(entry.timestamp).slice(isNarrow ? 5 : 0),
    entry.timestamp === undefined ? '' : ago(entry.timestamp).replace(/ ago$/, ''),
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

function stateCell({ whole, pinned }) {
  const pin = pinned ? ', pinned' : ''
  if (whole === undefined) return { text: pinned ? 'pinned' : '' }
  return whole ? { text: `whole${pin}`, style: 'green' } : { text: `damaged${pin}`, style: 'red' }
}

function damageReport(entries, terminal) {
  const damaged = entries.filter(({ whole }) => whole === false)
  return [
    `${count(damaged.length, 'checkpoint')} damaged; waymark recover restores the newest that is whole.`,
    ...damaged.slice(0, 5).map(({ id, error }) => {
      const { clean, clip } = require('../terminal/width.js')
      return `  ${terminal.paint(clip(clean(`${id}: ${error}`), terminal.columns - 2, terminal.glyphs.ellipsis))}`
    }),
  ]
}

async function agents(store, session, limit) {
  const ids = await store.listAgents(session)
  const lists = await Promise.all(
    ids.map(async (agentId) => Object.assign({ agentId }, await store.agent(session, agentId).info({ limit }))),
  )
  return {
    json: { sessionId: session, agents: lists },
    text: (terminal) =>
      lists.length === 0
        ? [`No agent of session ${terminal.paint(session)} has checkpoints of its own.`]
        : agentTable(lists, terminal),
  }
}

function agentTable(lists, terminal) {
  const { styleOf } = require('../terminal/status.js')
  const columns = [
    { title: 'AGENT', least: 8 },
    { title: 'CHECKPOINT' },
    { title: 'AGO', right: true },
    { title: 'ITERATION', right: true, least: 4 },
    { title: 'STATUS', least: 8 },
    { title: 'LABEL', least: 8 },
    { title: 'MESSAGES', right: true, least: 4, spare: 2 },
    { title: 'TOKENS', right: true, spare: 1 },
    { title: 'SIZE', right: true },
    { title: 'ENCODING', spare: 3 },
  ]
  const rows = lists.flatMap(({ agentId, checkpoints: infos, damaged }) => [
    ...infos.map((info) => [
      agentId,
      info.id,
      ago(info.timestamp).replace(/ ago$/, ''),
      info.iteration,
      { text: info.status, style: styleOf(info.status) },
      { text: info.label, style: 'cyan' },
      info.messageCount,
      info.tokensUsed,
      bytes(info.sizeBytes),
      info.encoding,
    ]),
    ...damaged.map(({ id }) => [agentId, id, '', '', { text: 'damaged', style: 'red' }, '', '', '', '', '']),
  ])
  return table(columns, rows, terminal)
}
