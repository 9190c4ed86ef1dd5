// Compares two checkpoints.

'use strict'

const { DONE, FAILED } = require('../cli-error.js')
const { line, section } = require('../terminal/lines.js')
const { ago, count, moment } = require('../terminal/units.js')
const { styleOf } = require('../views/status-style.js')
const { asObject, asString } = require('../views/stored-state.js')

const MAX_LINES = 40
const MAX_VALUE_LENGTH = 40

module.exports = {
  name: 'diff',
  positionals: [
    { name: 'session/before', description: 'The old checkpoint: an id, a unique prefix, a label, latest or latest~2.' },
    { name: '[session/]after', description: 'The new checkpoint; without a session, one of the same session.' },
  ],
  options: [
    { name: 'all', short: 'a', description: `Show all changes, not only the first ${MAX_LINES} of each kind.` },
  ],
  notes: ['The exit code is 1 if the checkpoints differ, otherwise 0.'],
  jsonResult: 'the result of diffCheckpoints()',
  examples: ['waymark diff nightly/latest~1 latest', 'waymark diff nightly/before-tests nightly-by-hand/latest'],
  run,
}

async function run(context) {
  const references = require('../input/references.js')
  const store = await context.store()
  const a = await references.checkpoint(store, context.args['session/before'])
  const b = await references.checkpoint(store, context.args['[session/]after'], { session: a.sessionId })
  const [before, after] = [a, b].map(({ sessionId, checkpointId }) => ({ sessionId, checkpointId }))
  const diff = await store.diffCheckpoints(before, after)
  const [oldState, newState] = context.options.json
    ? []
    : await Promise.all([before, after].map((each) => readState(store, each)))
  const limit = context.options.all ? Infinity : MAX_LINES
  return {
    exitCode: diff.identical ? DONE : FAILED,
    json: diff,
    text: (terminal) => linesOf(terminal, diff, oldState, newState, limit),
  }
}

async function readState(store, { sessionId, checkpointId }) {
  return asObject(await store.getCheckpoint(sessionId, checkpointId))
}

function linesOf(terminal, diff, oldState, newState, limit) {
  const { a, b, tasks, agents, context } = diff
  const lines = [
    line(terminal, [
      [`${a.sessionId}/${a.checkpointId}`, 'yellow'],
      [` (${ago(a.timestamp)}) ${terminal.glyphs.arrow} `],
      [`${b.sessionId}/${b.checkpointId}`, 'yellow'],
      [` (${ago(b.timestamp)})`],
    ]),
  ]
  if (diff.identical) return [...lines, 'The checkpoints are identical.']
  const [oldTasks, newTasks] = [asObject(oldState.taskTree), asObject(newState.taskTree)]
  const [oldAgents, newAgents] = [asObject(oldState.agentStates), asObject(newState.agentStates)]
  const [oldContext, newContext] = [asObject(oldState.contextStore), asObject(newState.contextStore)]
  const shorten = (all) => truncateList(terminal, all, limit)
  return [
    ...lines,
    summary(diff),
    ...section(terminal, 'Tasks', [
      ...statusChanges(terminal, tasks.changed),
      ...shorten([
        ...tasks.added.map((id) => added(terminal, id, promptOf(newTasks[id]))),
        ...tasks.removed.map((id) => removed(terminal, id, promptOf(oldTasks[id]))),
        ...tasks.changed.map((change) => changedTask(terminal, change)),
      ]),
    ]),
    ...section(
      terminal,
      'Agents',
      shorten([
        ...agents.added.map((id) => added(terminal, id, asString(asObject(newAgents[id]).role))),
        ...agents.removed.map((id) => removed(terminal, id, asString(asObject(oldAgents[id]).role))),
        ...agents.changed.map(({ id, members }) =>
          changed(terminal, id, values(terminal, members, asObject(oldAgents[id]), asObject(newAgents[id]))),
        ),
      ]),
    ),
    ...section(
      terminal,
      'Context',
      shorten([
        ...context.added.map((key) => added(terminal, key, shortValue(newContext[key]))),
        ...context.removed.map((key) => removed(terminal, key, shortValue(oldContext[key]))),
        ...context.changed.map((key) =>
          changed(terminal, key, values(terminal, [''], { '': oldContext[key] }, { '': newContext[key] })),
        ),
      ]),
    ),
    ...section(terminal, 'Session', shorten(sessionLines(terminal, diff.session, oldState.session, newState.session))),
  ]
}

/** `2 tasks added, 12 changed; 1 agent changed; 3 members of the session`. */
function summary({ tasks, agents, context, session }) {
  return [
    countChanges('task', tasks),
    countChanges('agent', agents),
    countChanges('key', context, ' of the context'),
    session.length > 0 ? `${count(session.length, 'member')} of the session changed` : '',
  ]
    .filter(Boolean)
    .join('; ')
}

function countChanges(noun, lists, scope = '') {
  const parts = Object.entries(lists).filter(([, list]) => list.length > 0)
  return parts
    .map(([verb, list], index) => `${index === 0 ? count(list.length, noun) + scope : list.length} ${verb}`)
    .join(', ')
}

/** How many tasks changed from one status to another: a summary of many changes. */
function statusChanges(terminal, changes) {
  const counts = new Map()
  for (const { status } of changes) {
    if (!status) continue
    const change = `${status.from ?? 'none'} ${terminal.glyphs.arrow} ${status.to ?? 'none'}`
    const { number = 0 } = counts.get(change) ?? {}
    counts.set(change, { number: number + 1, style: styleOf(status.to) })
  }
  if (counts.size === 0) return []
  return [
    `  ${[...counts].map(([change, { number, style }]) => terminal.paint(`${number} ${change}`, style)).join(', ')}`,
  ]
}

function changedTask(terminal, { id, members, status }) {
  const others = members.filter((member) => member !== 'status')
  const pieces = status
    ? [[`  ${status.from ?? 'none'} ${terminal.glyphs.arrow} `], [status.to ?? 'none', styleOf(status.to)]]
    : []
  return changed(terminal, id, [...pieces, [others.length > 0 ? `  ${others.join(', ')}` : '', 'dim']])
}

function added(terminal, id, about) {
  return line(terminal, [
    [`+ ${id}`, 'green'],
    [about ? `  ${about}` : '', 'dim'],
  ])
}

function removed(terminal, id, about) {
  return line(terminal, [
    [`- ${id}`, 'red'],
    [about ? `  ${about}` : '', 'dim'],
  ])
}

function changed(terminal, id, pieces) {
  return line(terminal, [[`~ ${id}`, 'yellow'], ...pieces])
}

/** The members that differ, with their old and new values. */
function values(terminal, members, before, after) {
  return members.flatMap((member) => {
    const name = member === '' ? '' : `${member} `
    const [from, to] = [before, after].map(({ [member]: value }) =>
      isTimestamp(member, value) ? moment(value) : shortValue(value),
    )
    return [
      [`  ${name}`],
      // Shortened values may look the same.
      [from === to ? 'changed' : `${from} ${terminal.glyphs.arrow} ${to}`, 'dim'],
    ]
  })
}

/** Timestamps are epoch milliseconds in members such as `createdAt`. */
function isTimestamp(member, value) {
  return member.endsWith('At') && typeof value === 'number'
}

function sessionLines(terminal, members, oldSession, newSession) {
  const [before, after] = [asObject(oldSession), asObject(newSession)]
  return members.map((member) => line(terminal, [['~', 'yellow'], ...values(terminal, [member], before, after)]))
}

function promptOf(task) {
  return asString(asObject(task).prompt)
}

/** A value in a few characters. */
function shortValue(value) {
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return count(value.length, 'entry').replace(/entrys$/, 'entries')
  if (typeof value === 'object' && value !== null) return `{ ${Object.keys(value).length} }`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text
}

function truncateList(terminal, lines, limit) {
  if (lines.length <= limit) return lines
  return [
    ...lines.slice(0, limit),
    terminal.paint(`${terminal.glyphs.ellipsis} ${lines.length - limit} more; --all shows them`, 'dim'),
  ]
}
