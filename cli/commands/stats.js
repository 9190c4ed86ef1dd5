// What takes up how much, and how it grew.

'use strict'

const { DONE, FAILED } = require('../complaint.js')
const { table } = require('../terminal/table.js')
const { bytes, moment } = require('../terminal/units.js')

const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']
const KINDS = [...ENCODINGS, 'agents', 'other']

const STEPS_AT_MOST = 12
const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const STEPS = [SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY]

module.exports = {
  name: 'stats',
  positionals: [
    { name: 'session', optional: true, meaning: 'This one alone. A single word that begins like a location is one.' },
  ],
  options: [],
  notes: [
    'The kinds are the encodings of checkpoints, all checkpoints of agents, and the rest: documents, results, and what deltas ' +
      'share. Growth counts the checkpoints that are still there, by the time when they were made.',
  ],
  document: '{ location, total, sessions, growth }',
  examples: ['waymark stats', 'waymark stats nightly --json'],
  run,
}

async function run(call) {
  const store = await call.store()
  const infos = await wanted(store, call.words.session)
  const sessions = []
  const made = []
  const troubles = []
  for (const info of infos) {
    const { session, checkpoints, trouble } = await measured(store, info).catch(unmeasured)
    if (trouble) {
      troubles.push(`Session ${info.id} is not counted: ${trouble}.`)
      continue
    }
    sessions.push(session)
    for (const each of checkpoints) made.push(each)
  }
  const total = totalOf(sessions)
  const growth = growthOf(made)
  return {
    exitCode: troubles.length > 0 ? FAILED : DONE,
    troubles,
    json: { location: store.getBaseDir(), total, sessions, growth },
    text: (terminal) =>
      sessions.length === 0
        ? [`No sessions in ${terminal.paint(store.getBaseDir())}.`]
        : [...sessionTable(terminal, sessions, total), ...growthChart(terminal, growth)],
  }
}

async function wanted(store, word) {
  const { infosOf, sessionId } = require('../references.js')
  return infosOf(store, word === undefined ? undefined : await sessionId(store, word))
}

/** One that may not be looked into keeps nobody from the others. */
function unmeasured(error) {
  if (!['WAYMARK_IO', 'WAYMARK_BUSY'].includes(error.code)) throw error
  return { trouble: error.message }
}

/** The bytes of a session by kind, and when each of its checkpoints was made. */
async function measured(store, { id, sizeBytes, checkpointCount, agentCheckpointCount }) {
  const kinds = Object.fromEntries(KINDS.map((kind) => [kind, 0]))
  const { checkpoints: own } = await store.listCheckpointInfo(id)
  for (const info of own) kinds[info.encoding] += info.sizeBytes
  const agents = []
  for (const agentId of agentCheckpointCount > 0 ? await store.listAgents(id) : []) {
    const { checkpoints } = await store.agent(id, agentId).info()
    for (const info of checkpoints) agents.push(info)
  }
  for (const info of agents) kinds.agents += info.sizeBytes
  const known = KINDS.reduce((sum, kind) => sum + kinds[kind], 0)
  kinds.other = Math.max(0, sizeBytes - known)
  const { resultCount } = await store.getSessionStorageStats(id)
  return {
    session: {
      id,
      sizeBytes,
      kinds,
      checkpoints: checkpointCount,
      agentCheckpoints: agentCheckpointCount,
      results: resultCount,
    },
    checkpoints: [...own, ...agents].map((info) => ({ timestamp: info.timestamp, sizeBytes: info.sizeBytes })),
  }
}

function totalOf(sessions) {
  const sum = (valueOf) => sessions.reduce((total, session) => total + valueOf(session), 0)
  return {
    sessions: sessions.length,
    sizeBytes: sum(({ sizeBytes }) => sizeBytes),
    kinds: Object.fromEntries(KINDS.map((kind) => [kind, sum(({ kinds }) => kinds[kind])])),
    checkpoints: sum(({ checkpoints }) => checkpoints),
    agentCheckpoints: sum(({ agentCheckpoints }) => agentCheckpoints),
    results: sum(({ results }) => results),
  }
}

/** How many bytes came in each step of time, and how many there were at its end: a dozen steps at most. */
function growthOf(checkpoints) {
  const dated = checkpoints.filter(({ timestamp }) => Number.isFinite(timestamp) && timestamp >= 0)
  if (dated.length === 0) return []
  let oldest = Infinity
  let newest = -Infinity
  for (const { timestamp } of dated) {
    oldest = Math.min(oldest, timestamp)
    newest = Math.max(newest, timestamp)
  }
  const stepOf = (step) => Math.floor(newest / step) - Math.floor(oldest / step) + 1
  const step =
    STEPS.find((size) => stepOf(size) <= STEPS_AT_MOST) ?? Math.ceil((newest - oldest + 1) / (STEPS_AT_MOST - 1))
  const first = Math.floor(oldest / step)
  const steps = Array.from({ length: stepOf(step) }, (_, index) => ({
    from: (first + index) * step,
    to: (first + index + 1) * step,
    addedBytes: 0,
    sizeBytes: 0,
  }))
  for (const { timestamp, sizeBytes } of dated) steps[Math.floor(timestamp / step) - first].addedBytes += sizeBytes
  let size = 0
  for (const each of steps) {
    size += each.addedBytes
    each.sizeBytes = size
  }
  return steps
}

function sessionTable(terminal, sessions, total) {
  const columns = [
    { title: 'SESSION', least: 16 },
    { title: 'SIZE', right: true },
    ...KINDS.map((kind) => ({ title: kind.toUpperCase(), right: true })),
    { title: 'CHECKPOINTS', right: true, spare: 1, isLuxury: true },
  ]
  const shown = (size) => (size > 0 ? bytes(size) : '')
  const rowOf = (name, { sizeBytes, kinds, checkpoints }, style) => [
    { text: name, style },
    { text: bytes(sizeBytes), style: 'bold' },
    ...KINDS.map((kind) => shown(kinds[kind])),
    checkpoints,
  ]
  const largestFirst = sessions.toSorted((a, b) => b.sizeBytes - a.sizeBytes)
  const rows = largestFirst.map((session) => rowOf(session.id, session))
  if (sessions.length > 1) rows.push(rowOf(`all ${sessions.length}`, total, 'bold'))
  return table(columns, rows, terminal)
}

function growthChart(terminal, growth) {
  if (growth.length === 0) return []
  const { chart } = require('../terminal/chart.js')
  const { section } = require('../terminal/lines.js')
  const step = growth[0].to - growth[0].from
  const isByDay = step >= DAY
  const isByMinute = step >= MINUTE
  const rows = growth.map(({ from, addedBytes, sizeBytes }) => ({
    name: isByDay ? moment(from).slice(0, 10) : moment(from).slice(5, isByMinute ? 16 : 19),
    value: sizeBytes,
    text: `${bytes(sizeBytes)}${addedBytes > 0 ? ` (+${bytes(addedBytes)})` : ''}`,
  }))
  return section(terminal, 'Growth', chart(terminal, rows))
}
