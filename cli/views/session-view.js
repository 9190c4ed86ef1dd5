// The view of one state of a session: header, task tree, agents, errors and metrics.

'use strict'

const { flow, line } = require('../terminal/lines.js')
const { ago, bytes, count, duration, moment } = require('../terminal/units.js')
const { styleOf, symbolOf } = require('./status-style.js')
const {
  asObject,
  asString,
  countTasks,
  displayValue,
  isLeased,
  tasksOf,
  uncommonStatuses,
} = require('./stored-state.js')

function headerLines(terminal, state, lease) {
  const session = asObject(state.session)
  const tasks = countTasks(tasksOf(state.taskTree))
  const { taskBar } = require('./task-bar.js')
  const barCell = taskBar(terminal, terminal.columns >= 110 ? 32 : 16, tasks)
  const name = asString(session.name)
  const facts = [
    ['state', describeSource(state)],
    ['created', describeCreation(state)],
    ['status', describeStatus(session), styleOf(session.status)],
    ['owner', isLeased({ lease }) ? `${lease.owner}, for another ${duration(lease.expiresAt - Date.now())}` : ''],
    ['forked from', describeFork(session.forkedFrom)],
    ['about', state.description ?? session.description],
  ]
  const lines = [
    line(terminal, [[state.sessionId, 'bold'], [name && name !== state.sessionId ? `  ${name}` : '']]),
    ...facts
      .filter(([, text]) => typeof text === 'string' && text !== '')
      .map(([title, text, style]) =>
        line(terminal, [
          [title.padEnd(12), 'dim'],
          [text, style],
        ]),
      ),
  ]
  if (barCell.text) {
    const { displayWidth } = require('../terminal/text-width.js')
    const rest = describeTasks(tasks)
    const fits = 12 + displayWidth(barCell.text) + rest.length <= terminal.columns
    const first = `${terminal.paint('tasks'.padEnd(12), 'dim')}${barCell.styledText}`
    if (fits) lines.push(first + rest)
    else lines.push(first, line(terminal, [[' '.repeat(11) + rest]]))
  }
  return lines
}

function describeSource({ id, back, label, info }) {
  if (id === undefined) return 'last saved or restored'
  const name = info?.label ?? label
  const facts = [
    `${id} (${back === 0 ? 'latest' : `latest~${back}`})`,
    name === undefined ? '' : `label ${name}`,
    info?.pinned ? 'pinned' : '',
  ]
  return facts.filter(Boolean).join(', ')
}

function describeCreation({ id, timestamp, trigger, info, sizeBytes }) {
  if (id === undefined) return ''
  return `${ago(timestamp)}, ${moment(timestamp)}, ${trigger}, ${bytes(sizeBytes)}${info ? ` ${info.encoding}` : ''}`
}

function describeStatus({ status, createdAt, completedAt, expiresAt }) {
  const facts = [
    asString(status) ?? '',
    createdAt ? `created ${ago(createdAt)}` : '',
    completedAt ? `completed ${ago(completedAt)}` : '',
    expiresAt ? `${expiresAt < Date.now() ? 'expired' : 'expires'} ${ago(expiresAt)}` : '',
  ]
  return facts.filter(Boolean).join(', ')
}

function describeFork(from) {
  const { sessionId, checkpointId } = asObject(from)
  return sessionId && checkpointId ? `${sessionId}/${checkpointId}` : ''
}

function describeTasks(counts) {
  const { failed, inProgress, pending } = counts
  const parts = [
    ' done',
    failed > 0 ? `${failed} failed` : '',
    inProgress > 0 ? `${inProgress} in progress` : '',
    ...uncommonStatuses(counts),
    pending > 0 ? `${pending} pending` : '',
  ]
  return parts.filter(Boolean).join(', ')
}

function treeLines(terminal, { session, taskTree }, limits) {
  const { buildForest, treeRows } = require('./task-tree.js')
  const forest = buildForest(tasksOf(taskTree), asObject(session).rootTaskId)
  return treeRows(forest, terminal.glyphs, limits).map((row) =>
    line(terminal, [[row.prefix, 'dim'], ...taskPieces(row, terminal)]),
  )
}

function taskPieces({ node, omitted, isCollapsed }, terminal) {
  if (omitted) return [[`${terminal.glyphs.ellipsis} ${describeCounts(omitted, 'more task')}`, 'dim']]
  const { id, task, below } = node
  const status = asString(task.status)
  const style = styleOf(status)
  const isPlain = status === undefined || status === 'completed' || status === 'pending'
  const about = status === 'failed' ? (errorOf(task) ?? asString(task.prompt)) : asString(task.prompt)
  return [
    [`${symbolOf(status, terminal)} `, style],
    [id, style ?? 'bold'],
    [isPlain ? '' : `  ${status}`, style],
    [isCollapsed ? `  [${describeCounts(below, 'task')}]` : '', 'cyan'],
    [about ? `  ${about}` : '', status === 'failed' ? 'red' : 'dim'],
  ]
}

function errorOf({ result }) {
  return asString(asObject(asObject(result).error).message)
}

/** `12 tasks: 8 done, 1 failed`. */
function describeCounts(counts, noun) {
  const { total, completed, failed, inProgress } = counts
  const parts = [
    completed > 0 ? `${completed} done` : '',
    failed > 0 ? `${failed} failed` : '',
    inProgress > 0 ? `${inProgress} in progress` : '',
    ...uncommonStatuses(counts),
  ].filter(Boolean)
  return `${count(total, noun)}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`
}

function agentLines(terminal, { agentStates }, { siblings = Infinity }) {
  const agents = Object.entries(asObject(agentStates)).map(([id, agent]) => Object.assign({}, asObject(agent), { id }))
  if (agents.length === 0) return []
  const { table } = require('../terminal/table.js')
  const columns = [
    { title: 'AGENT', minWidth: 8 },
    { title: 'ROLE', minWidth: 6, dropPriority: 2 },
    { title: 'STATE', minWidth: 7 },
    { title: 'TASK', minWidth: 8 },
    { title: 'DONE', alignRight: true },
    { title: 'FAILED', alignRight: true },
    { title: 'ACTIVE', alignRight: true, dropPriority: 1 },
  ]
  const rows = agents
    .slice(0, siblings)
    .map(({ id, role, state, currentTaskId, completedTasks, failedTasks, lastActivityAt }) => [
      id,
      displayValue(role),
      { text: displayValue(state), style: styleOf(state) },
      displayValue(currentTaskId),
      displayValue(completedTasks),
      { text: displayValue(failedTasks), style: failedTasks > 0 ? 'red' : undefined },
      lastActivityAt ? ago(lastActivityAt) : '',
    ])
  return [...table(columns, rows, terminal), ...moreLine(terminal, agents.length - rows.length, 'agent')]
}

function errorLines(terminal, { session }, { errors: limit = Infinity }) {
  const { errors } = asObject(session)
  const all = Array.isArray(errors) ? errors.map(asObject) : []
  // The last errors first: they are why the session failed.
  const shown = all.slice(-limit).toReversed()
  const lines = shown.map(({ timestamp, severity, code, message, taskId, agentId, recovered }) =>
    line(terminal, [
      [`${timestamp ? ago(timestamp) : '?'}  `, 'dim'],
      [`${asString(severity) ?? 'error'} ${asString(code) ?? ''}`, severity === 'warning' ? 'yellow' : 'red'],
      [`  ${asString(message) ?? ''}`],
      [
        [taskId, agentId]
          .filter(asString)
          .map((id) => `  ${id}`)
          .join(''),
        'dim',
      ],
      [recovered === true ? '  recovered' : '', 'green'],
    ]),
  )
  return [...lines, ...moreLine(terminal, all.length - shown.length, 'earlier error')]
}

function moreLine(terminal, omitted, noun) {
  return omitted > 0 ? [terminal.paint(`${terminal.glyphs.ellipsis} ${count(omitted, noun)} more`, 'dim')] : []
}

function metricLines(terminal, { session }) {
  const facts = Object.entries(asObject(asObject(session).metrics))
    .filter(([, value]) => typeof value === 'number' && value !== 0)
    .map(([name, value]) => (name.endsWith('Ms') ? `${name.slice(0, -2)} ${duration(value)}` : `${name} ${value}`))
  return flow(terminal, facts)
}

module.exports = { agentLines, errorLines, headerLines, metricLines, treeLines }
