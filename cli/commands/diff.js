// What changed from one checkpoint to another.

'use strict'

const { DONE, FAILED } = require('../complaint.js')
const { membersOf, textOf } = require('../state.js')
const { line, section } = require('../terminal/lines.js')
const { styleOf } = require('../terminal/status.js')
const { ago, count, moment } = require('../terminal/units.js')

const SHOWN = 40
const LONGEST_VALUE = 40

module.exports = {
  name: 'diff',
  summary: 'What changed from one checkpoint to another: tasks, agents, context and session.',
  positionals: [
    { name: 'session/before', meaning: 'A checkpoint: an id, a beginning, a label, latest, latest~2.' },
    { name: '[session/]after', meaning: 'Another one; without a session, of the same session.' },
  ],
  options: [{ name: 'all', short: 'a', meaning: `All changes, not the first ${SHOWN} of each kind.` }],
  notes: ['Exits with 1 if they differ, with 0 if they do not.'],
  document: 'what diffCheckpoints() gives',
  examples: ['waymark diff nightly/latest~1 latest', 'waymark diff nightly/before-tests nightly-by-hand/latest'],
  run,
}

async function run(call) {
  const references = require('../references.js')
  const store = await call.store()
  const a = await references.checkpoint(store, call.words['session/before'])
  const b = await references.checkpoint(store, call.words['[session/]after'], { session: a.sessionId })
  const [before, after] = [a, b].map(({ sessionId, checkpointId }) => ({ sessionId, checkpointId }))
  const diff = await store.diffCheckpoints(before, after)
  const [old, young] = call.options.json ? [] : await Promise.all([before, after].map((each) => stateOf(store, each)))
  const atMost = call.options.all ? Infinity : SHOWN
  return {
    exitCode: diff.identical ? DONE : FAILED,
    json: diff,
    text: (terminal) => linesOf(terminal, diff, old, young, atMost),
  }
}

async function stateOf(store, { sessionId, checkpointId }) {
  return membersOf(await store.getCheckpoint(sessionId, checkpointId))
}

function linesOf(terminal, diff, old, young, atMost) {
  const { a, b, tasks, agents, context } = diff
  const lines = [
    line(terminal, [
      [`${a.sessionId}/${a.checkpointId}`, 'yellow'],
      [` (${ago(a.timestamp)}) ${terminal.glyphs.arrow} `],
      [`${b.sessionId}/${b.checkpointId}`, 'yellow'],
      [` (${ago(b.timestamp)})`],
    ]),
  ]
  if (diff.identical) return [...lines, 'Nothing differs.']
  const [oldTasks, newTasks] = [membersOf(old.taskTree), membersOf(young.taskTree)]
  const [oldAgents, newAgents] = [membersOf(old.agentStates), membersOf(young.agentStates)]
  const [oldContext, newContext] = [membersOf(old.contextStore), membersOf(young.contextStore)]
  const shorten = (all) => firstOf(terminal, all, atMost)
  return [
    ...lines,
    summary(diff),
    ...section(terminal, 'Tasks', [
      ...moves(terminal, tasks.changed),
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
        ...agents.added.map((id) => added(terminal, id, textOf(membersOf(newAgents[id]).role))),
        ...agents.removed.map((id) => removed(terminal, id, textOf(membersOf(oldAgents[id]).role))),
        ...agents.changed.map(({ id, members }) =>
          changed(terminal, id, values(terminal, members, membersOf(oldAgents[id]), membersOf(newAgents[id]))),
        ),
      ]),
    ),
    ...section(
      terminal,
      'Context',
      shorten([
        ...context.added.map((key) => added(terminal, key, brief(newContext[key]))),
        ...context.removed.map((key) => removed(terminal, key, brief(oldContext[key]))),
        ...context.changed.map((key) =>
          changed(terminal, key, values(terminal, [''], { '': oldContext[key] }, { '': newContext[key] })),
        ),
      ]),
    ),
    ...section(terminal, 'Session', shorten(sessionLines(terminal, diff.session, old.session, young.session))),
  ]
}

/** `2 tasks added, 12 changed; 1 agent changed; 3 members of the session`. */
function summary({ tasks, agents, context, session }) {
  return [
    sums('task', tasks),
    sums('agent', agents),
    sums('key', context, ' of the context'),
    session.length > 0 ? `${count(session.length, 'member')} of the session changed` : '',
  ]
    .filter(Boolean)
    .join('; ')
}

function sums(noun, lists, where = '') {
  const parts = Object.entries(lists).filter(([, list]) => list.length > 0)
  return parts
    .map(([verb, list], index) => `${index === 0 ? count(list.length, noun) + where : list.length} ${verb}`)
    .join(', ')
}

/** How many tasks went from which status to which: the first thing that anybody wants to know of hundreds. */
function moves(terminal, changes) {
  const counts = new Map()
  for (const { status } of changes) {
    if (!status) continue
    const move = `${status.from ?? 'none'} ${terminal.glyphs.arrow} ${status.to ?? 'none'}`
    const { number = 0 } = counts.get(move) ?? {}
    counts.set(move, { number: number + 1, style: styleOf(status.to) })
  }
  if (counts.size === 0) return []
  return [`  ${[...counts].map(([move, { number, style }]) => terminal.paint(`${number} ${move}`, style)).join(', ')}`]
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

/** The members that differ, with what they were and are where that is short. */
function values(terminal, members, old, young) {
  return members.flatMap((member) => {
    const name = member === '' ? '' : `${member} `
    const [from, to] = [old, young].map(({ [member]: value }) =>
      isMoment(member, value) ? moment(value) : brief(value),
    )
    return [
      [`  ${name}`],
      // What looks alike when it is shortened is not worth showing twice.
      [from === to ? 'changed' : `${from} ${terminal.glyphs.arrow} ${to}`, 'dim'],
    ]
  })
}

/** Times are epoch milliseconds, which nobody can read. */
function isMoment(member, value) {
  return member.endsWith('At') && typeof value === 'number'
}

function sessionLines(terminal, members, old, young) {
  const [before, after] = [membersOf(old), membersOf(young)]
  return members.map((member) => line(terminal, [['~', 'yellow'], ...values(terminal, [member], before, after)]))
}

function promptOf(task) {
  return textOf(membersOf(task).prompt)
}

/** A value in a few characters. */
function brief(value) {
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return count(value.length, 'entry').replace(/entrys$/, 'entries')
  if (typeof value === 'object' && value !== null) return `{ ${Object.keys(value).length} }`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text
}

function firstOf(terminal, lines, atMost) {
  if (lines.length <= atMost) return lines
  return [
    ...lines.slice(0, atMost),
    terminal.paint(`${terminal.glyphs.ellipsis} ${lines.length - atMost} more; --all shows them`, 'dim'),
  ]
}
