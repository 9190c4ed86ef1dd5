// Lists the sessions of a store, or the checkpoints of one session.

'use strict'

const { table } = require('../terminal/table.js')
const { age, bytes, moment } = require('../terminal/units.js')

const CONCURRENT_CHECKS = 8
/** How long the table of sessions waits for newest checkpoints to be read. */
const READ_TIME_LIMIT_MS = 400
/** A table of checkpoints with all columns is about this wide. */
const FULL_WIDTH = 125

module.exports = {
  name: 'ls',
  positionals: [
    {
      name: 'session',
      optional: true,
      description: 'List the checkpoints of this session. A single argument that looks like a location is one.',
    },
  ],
  options: [
    {
      name: 'limit',
      short: 'n',
      value: 'number',
      description: 'Maximum number of lines; the newest checkpoints are listed.',
    },
    { name: 'quick', short: 'q', description: 'Do not verify the checkpoints.' },
    { name: 'agents', short: 'a', description: 'List the checkpoints of the agents of the session instead.' },
  ],
  notes: ['The exit code is 0 even if checkpoints are damaged; that of waymark verify is not.'],
  jsonResult:
    '{ location, total, sessions } as sessionsInfo() returns them, with the status and tasks of the newest checkpoint if they are ahead of the saved ones; of a session { sessionId, total, checkpoints } as listCheckpointInfo() returns them, each with whole, and with error and code if it is not whole; with --agents { sessionId, agents }',
  examples: ['waymark ls', 'waymark ls ./sessions', 'waymark ls nightly', 'waymark ls nightly --limit 10 --json'],
  run,
}

async function run(context) {
  const { session } = context.args
  const { limitOption } = require('../input/quantities.js')
  const limit = limitOption(context.options)
  const store = await context.store()
  if (session === undefined) return listSessions(context, store, limit)
  const { sessionId } = require('../input/references.js')
  const id = await sessionId(store, session)
  return context.options.agents ? listAgents(store, id, limit) : listCheckpoints(context, store, id, limit)
}

async function listSessions(context, store, limit) {
  const { readSessions, sessionTable } = require('../views/session-table.js')
  const timeLimitMs = context.options.json ? Infinity : READ_TIME_LIMIT_MS
  const read = await readSessions(store, { limit, timeLimitMs })
  const { infos, total, unread } = read
  return {
    json: { location: store.getBaseDir(), total, sessions: infos },
    text(terminal) {
      if (infos.length === 0) return [`No sessions in ${terminal.paint(store.getBaseDir())}.`]
      const lines = sessionTable(read, terminal)
      if (infos.length < total) lines.push(terminal.paint(`${infos.length} of ${total} sessions`, 'dim'))
      if (unread > 0) lines.push(`${unread} of them are shown as last saved, to save time; --json reads all of them.`)
      return lines
    },
  }
}

async function listCheckpoints(context, store, id, limit) {
  const { checkpointsOf } = require('../input/references.js')
  const all = await checkpointsOf(store, id)
  const listed = all.slice(0, limit)
  const verifications = context.options.quick ? new Map() : await verifyAll(context, store, id, listed)
  const entries = listed.map(({ id: checkpointId, info, damaged }) => ({
    ...(info ?? { id: checkpointId }),
    ...wholeness(damaged ?? verifications.get(checkpointId)),
  }))
  const damagedItems = listed
    .map(({ id: checkpointId, damaged }) => damaged ?? verifications.get(checkpointId))
    .filter((item) => item && !item.whole)
  const emptyMessage = all.length === 0 ? await require('../views/agent-table.js').noCheckpointsMessage(store, id) : ''
  return {
    json: { sessionId: id, total: all.length, checkpoints: entries },
    text(terminal) {
      if (entries.length === 0) return [terminal.paint(emptyMessage)]
      const lines = checkpointTable(entries, all, terminal)
      if (listed.length < all.length) lines.push(terminal.paint(`${listed.length} of ${all.length} checkpoints`, 'dim'))
      if (damagedItems.length > 0) lines.push('', ...damageReport(store, id, damagedItems, terminal))
      return lines
    },
  }
}

/** Verifies checkpoints, a few concurrently. */
async function verifyAll(context, store, session, listed) {
  const readable = listed.filter(({ info }) => info)
  const verifications = new Map()
  const total = readable.length
  await context.runTask(
    { title: 'Checking', afterCancel: 'ls only reads.', isQuiet: true },
    async ({ onProgress, signal }) => {
      let next = 0
      let read = 0
      const worker = async () => {
        while (next < total && !signal.aborted) {
          const { id, info } = readable[next]
          next += 1
          // A checkpoint that retention deleted concurrently is not damaged.
          const verification = await store.verifyCheckpoint(session, id).catch((error) => {
            if (error.code === 'WAYMARK_NOT_FOUND') return undefined
            throw error
          })
          verifications.set(id, verification)
          read += info.sizeBytes
          onProgress({ phase: 'verify', done: verifications.size, total, bytes: read })
        }
      }
      await Promise.all(Array.from({ length: CONCURRENT_CHECKS }, worker))
      signal.throwIfAborted()
    },
  )
  return verifications
}

/** The members of the JSON result that say whether a checkpoint is whole; none if it was not verified. */
function wholeness(item) {
  if (!item) return {}
  return item.whole ? { whole: true } : { whole: false, error: item.error, code: item.code }
}

function checkpointTable(entries, all, terminal) {
  const isNarrow = terminal.columns < FULL_WIDTH
  const positions = new Map(all.map(({ id }, index) => [id, index]))
  const columns = [
    ...(isNarrow ? [{ title: '~', alignRight: true }] : []),
    { title: 'CHECKPOINT' },
    { title: 'WHEN', dropPriority: 4, dropFirst: true },
    { title: 'AGO', alignRight: true },
    { title: 'TRIGGER', minWidth: 7, dropPriority: 2 },
    { title: 'LABEL', minWidth: 6, dropPriority: 1 },
    { title: 'PARENT', minWidth: 6, dropPriority: 3 },
    { title: 'SIZE', alignRight: true },
    { title: 'CODEC' },
    { title: 'STATE' },
  ]
  const rows = entries.map((entry, index) => [
    ...(isNarrow ? [index] : []),
    entry.id,
    entry.timestamp === undefined ? '' : moment(entry.timestamp).slice(isNarrow ? 5 : 0),
    entry.timestamp === undefined ? '' : age(entry.timestamp),
    entry.trigger,
    { text: entry.label, style: 'cyan' },
    // In a narrow table the position instead of the id: the number in `latest~2`.
    { text: isNarrow && positions.has(entry.parent) ? `~${positions.get(entry.parent)}` : entry.parent, style: 'dim' },
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
  const { damageState } = require('../views/damage.js')
  return { text: `${damageState({ code })}${pin}`, style: 'red' }
}

function damageReport(store, session, damaged, terminal) {
  const { commandLine } = require('../input/command-line.js')
  const { countDamage, damageLine } = require('../views/damage.js')
  const { line } = require('../terminal/lines.js')
  return [
    terminal.paint(`${countDamage(damaged)}; ${commandLine(store, 'verify', [session])} says what to do.`),
    ...damaged.map((item) => line(terminal, [[`  ${damageLine(item, item.id)}`]])),
  ]
}

async function listAgents(store, session, limit) {
  const { agentTable, readAgentLists } = require('../views/agent-table.js')
  const lists = await readAgentLists(store, session, limit)
  return {
    json: { sessionId: session, agents: lists },
    text: (terminal) =>
      lists.length === 0
        ? [`No agent of session ${terminal.paint(session)} has checkpoints of its own.`]
        : agentTable(lists, terminal),
  }
}
