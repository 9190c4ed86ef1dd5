// One state of a session, drawn: its header, its task tree, its agents, what went wrong, its metrics.

'use strict'

const { countsOf, membersOf, rareOnes, shownOf, tasksOf, textOf } = require('./state.js')
const { flow, line } = require('./terminal/lines.js')
const { signOf, styleOf } = require('./terminal/status.js')
const { ago, bytes, count, duration, moment } = require('./terminal/units.js')

function header(terminal, state, lease) {
  const session = membersOf(state.session)
  const tasks = countsOf(tasksOf(state.taskTree))
  const { taskBar } = require('./terminal/bar.js')
  const barCell = taskBar(terminal, terminal.columns >= 110 ? 32 : 16, tasks)
  const name = textOf(session.name)
  const facts = [
    ['state', stateSentence(state)],
    ['made', madeSentence(state)],
    ['status', statusSentence(session), styleOf(session.status)],
    [
      'owner',
      lease && lease.expiresAt > Date.now()
        ? `${lease.owner}, for another ${duration(lease.expiresAt - Date.now())}`
        : '',
    ],
    ['forked from', forkSentence(session.forkedFrom)],
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
    const { widthOf } = require('./terminal/width.js')
    const rest = tasksSentence(tasks)
    const fits = 12 + widthOf(barCell.text) + rest.length <= terminal.columns
    const first = `${terminal.paint('tasks'.padEnd(12), 'dim')}${barCell.painted}`
    if (fits) lines.push(first + rest)
    else lines.push(first, line(terminal, [[' '.repeat(11) + rest]]))
  }
  return lines
}

function stateSentence({ id, back, label, info }) {
  if (id === undefined) return 'as it was last saved or restored'
  const name = info?.label ?? label
  const facts = [
    `${id} (${back === 0 ? 'latest' : `latest~${back}`})`,
    name === undefined ? '' : `label ${name}`,
    info?.pinned ? 'pinned' : '',
  ]
  return facts.filter(Boolean).join(', ')
}

function madeSentence({ id, timestamp, trigger, info, sizeBytes }) {
  if (id === undefined) return ''
  return `${ago(timestamp)}, ${moment(timestamp)}, ${trigger}, ${bytes(sizeBytes)}${info ? ` ${info.encoding}` : ''}`
}

function statusSentence({ status, createdAt, completedAt, expiresAt }) {
  const facts = [
    textOf(status) ?? '',
    createdAt ? `created ${ago(createdAt)}` : '',
    completedAt ? `completed ${ago(completedAt)}` : '',
    expiresAt ? `${expiresAt < Date.now() ? 'expired' : 'expires'} ${ago(expiresAt)}` : '',
  ]
  return facts.filter(Boolean).join(', ')
}

function forkSentence(from) {
  const { sessionId, checkpointId } = membersOf(from)
  return sessionId && checkpointId ? `${sessionId}/${checkpointId}` : ''
}

function tasksSentence(counts) {
  const { failed, inProgress, pending } = counts
  const parts = [
    ' done',
    failed > 0 ? `${failed} failed` : '',
    inProgress > 0 ? `${inProgress} in progress` : '',
    ...rareOnes(counts),
    pending > 0 ? `${pending} pending` : '',
  ]
  return parts.filter(Boolean).join(', ')
}

function treeLines(terminal, { session, taskTree }, limits) {
  const { forestOf, rowsOf } = require('./terminal/tree.js')
  const forest = forestOf(tasksOf(taskTree), membersOf(session).rootTaskId)
  return rowsOf(forest, terminal.glyphs, limits).map((row) =>
    line(terminal, [[row.prefix, 'dim'], ...taskPieces(row, terminal)]),
  )
}

function taskPieces({ node, left, isFolded }, terminal) {
  if (left) return [[`${terminal.glyphs.ellipsis} ${insideSentence(left, 'more task')}`, 'dim']]
  const { id, task, inside } = node
  const status = textOf(task.status)
  const style = styleOf(status)
  const isPlain = status === undefined || status === 'completed' || status === 'pending'
  const about = status === 'failed' ? (errorOf(task) ?? textOf(task.prompt)) : textOf(task.prompt)
  return [
    [`${signOf(status, terminal)} `, style],
    [id, style ?? 'bold'],
    [isPlain ? '' : `  ${status}`, style],
    [isFolded ? `  [${insideSentence(inside, 'task')}]` : '', 'cyan'],
    [about ? `  ${about}` : '', status === 'failed' ? 'red' : 'dim'],
  ]
}

function errorOf({ result }) {
  return textOf(membersOf(membersOf(result).error).message)
}

/** `12 tasks: 8 done, 1 failed`. */
function insideSentence(counts, noun) {
  const { total, completed, failed, inProgress } = counts
  const parts = [
    completed > 0 ? `${completed} done` : '',
    failed > 0 ? `${failed} failed` : '',
    inProgress > 0 ? `${inProgress} in progress` : '',
    ...rareOnes(counts),
  ].filter(Boolean)
  return `${count(total, noun)}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`
}

function agentLines(terminal, { agentStates }, { siblings = Infinity }) {
  const agents = Object.entries(membersOf(agentStates)).map(([id, agent]) =>
    Object.assign({}, membersOf(agent), { id }),
  )
  if (agents.length === 0) return []
  const { table } = require('./terminal/table.js')
  const columns = [
    { title: 'AGENT', least: 8 },
    { title: 'ROLE', least: 6, spare: 2 },
    { title: 'STATE', least: 7 },
    { title: 'TASK', least: 8 },
    { title: 'DONE', right: true },
    { title: 'FAILED', right: true },
    { title: 'ACTIVE', right: true, spare: 1 },
  ]
  const rows = agents
    .slice(0, siblings)
    .map(({ id, role, state, currentTaskId, completedTasks, failedTasks, lastActivityAt }) => [
      id,
      shownOf(role),
      { text: shownOf(state), style: styleOf(state) },
      shownOf(currentTaskId),
      shownOf(completedTasks),
      { text: shownOf(failedTasks), style: failedTasks > 0 ? 'red' : undefined },
      lastActivityAt ? ago(lastActivityAt) : '',
    ])
  return [...table(columns, rows, terminal), ...more(terminal, agents.length - rows.length, 'agent')]
}

function errorLines(terminal, { session }, { errors: atMost = Infinity }) {
  const { errors } = membersOf(session)
  const all = Array.isArray(errors) ? errors.map(membersOf) : []
  // The last ones are what it died of.
  const shown = all.slice(-atMost).toReversed()
  const lines = shown.map(({ timestamp, severity, code, message, taskId, agentId, recovered }) =>
    line(terminal, [
      [`${timestamp ? ago(timestamp) : '?'}  `, 'dim'],
      [`${textOf(severity) ?? 'error'} ${textOf(code) ?? ''}`, severity === 'warning' ? 'yellow' : 'red'],
      [`  ${textOf(message) ?? ''}`],
      [
        [taskId, agentId]
          .filter(textOf)
          .map((id) => `  ${id}`)
          .join(''),
        'dim',
      ],
      [recovered === true ? '  recovered' : '', 'green'],
    ]),
  )
  return [...lines, ...more(terminal, all.length - shown.length, 'earlier error')]
}

function more(terminal, left, noun) {
  return left > 0 ? [terminal.paint(`${terminal.glyphs.ellipsis} ${count(left, noun)} more`, 'dim')] : []
}

function metricLines(terminal, { session }) {
  const facts = Object.entries(membersOf(membersOf(session).metrics))
    .filter(([, value]) => typeof value === 'number' && value !== 0)
    .map(([name, value]) => (name.endsWith('Ms') ? `${name.slice(0, -2)} ${duration(value)}` : `${name} ${value}`))
  return flow(terminal, facts)
}

module.exports = { agentLines, errorLines, header, metricLines, treeLines }
