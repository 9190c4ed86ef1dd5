// Shows bytes by session and kind, and their growth.

'use strict'

const { DONE, FAILED } = require('../cli-error.js')
const { ENCODINGS, ONE_SESSION } = require('../input/positionals.js')
const { table } = require('../terminal/table.js')
const { bytes, moment } = require('../terminal/units.js')

const KINDS = [...ENCODINGS, 'agents', 'other']

const MAX_STEPS = 12
const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const STEPS = [SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY]

module.exports = {
  name: 'stats',
  positionals: [ONE_SESSION],
  options: [],
  notes: [
    'The kinds are the encodings of checkpoints, all checkpoints of agents, and the rest: documents, results, and the bases of ' +
      'deltas. Growth counts the existing checkpoints by their creation time.',
  ],
  jsonResult: '{ location, total, sessions, growth }',
  examples: ['waymark stats', 'waymark stats nightly --json'],
  run,
}

async function run(context) {
  const { infosOf, optionalSessionId } = require('../input/references.js')
  const store = await context.store()
  const infos = await infosOf(store, await optionalSessionId(store, context.args.session))
  const sessions = []
  const created = []
  const problems = []
  for (const info of infos) {
    const { session, checkpoints, problem } = await measure(store, info).catch(asProblem)
    if (problem) {
      problems.push(`Session ${info.id} is not counted: ${problem}.`)
      continue
    }
    sessions.push(session)
    for (const each of checkpoints) created.push(each)
  }
  const total = totalOf(sessions)
  const growth = growthOf(created)
  return {
    exitCode: problems.length > 0 ? FAILED : DONE,
    problems,
    json: { location: store.getBaseDir(), total, sessions, growth },
    text: (terminal) =>
      sessions.length === 0
        ? [`No sessions in ${terminal.paint(store.getBaseDir())}.`]
        : [...sessionTable(terminal, sessions, total), ...growthChart(terminal, growth)],
  }
}

/** A session that cannot be read does not prevent the statistics of the others. */
function asProblem(error) {
  if (!['WAYMARK_IO', 'WAYMARK_BUSY'].includes(error.code)) throw error
  return { problem: error.message }
}

/** The bytes of a session by kind, and the times and sizes of its checkpoints. */
async function measure(store, { id, sizeBytes, checkpointCount, agentCheckpointCount }) {
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

/** For each time step, the bytes added in it and the total at its end; at most `MAX_STEPS` steps. */
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
  const step = STEPS.find((size) => stepOf(size) <= MAX_STEPS) ?? Math.ceil((newest - oldest + 1) / (MAX_STEPS - 1))
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
    { title: 'SESSION', minWidth: 16 },
    { title: 'SIZE', alignRight: true },
    ...KINDS.map((kind) => ({ title: kind.toUpperCase(), alignRight: true })),
    { title: 'CHECKPOINTS', alignRight: true, dropPriority: 1, dropFirst: true },
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
