// Deletes the checkpoints that retention does not keep.

'use strict'

const { DONE, FAILED } = require('../cli-error.js')
const { ONE_SESSION } = require('../input/positionals.js')
const { durationMs, sizeBytes, wholeNumber } = require('../input/quantities.js')
const { ago, bytes, count } = require('../terminal/units.js')
const { asSentence } = require('../views/error-message.js')
const { leasedSessions, leasesOf, skippedMessage, unleasedSession } = require('./shared/lease.js')

const MAX_LINES = 10

module.exports = {
  name: 'prune',
  positionals: [ONE_SESSION],
  options: [
    { name: 'keep-last', value: 'number', description: 'Keep this many newest checkpoints of each session.' },
    {
      name: 'keep-hourly',
      value: 'number',
      description: 'Keep the newest of each of this many latest hours with checkpoints.',
    },
    {
      name: 'keep-daily',
      value: 'number',
      description: 'Keep the newest of each of this many latest days with checkpoints.',
    },
    { name: 'max-age', value: 'duration', description: 'Delete checkpoints older than this: 90s, 12h, 7d, 2w.' },
    {
      name: 'max-bytes',
      value: 'size',
      description: 'Delete the oldest until a session is at most this large: 500MB, 2GiB.',
    },
    { name: 'labelled-too', description: 'Delete labelled checkpoints too, which are kept by default.' },
    {
      name: 'keep-agents',
      value: 'number',
      description: 'Keep this many newest checkpoints of each agent; default all.',
    },
    { name: 'dry-run', short: 'n', description: 'Only show what would be deleted, and why.' },
  ],
  isDestructive: true,
  notes: [
    'Without a rule, the retention that setRetention() set for each session applies. The newest checkpoint of a session and ' +
      'pinned ones are always kept.',
  ],
  jsonResult: 'the result of prune(), with owned: the sessions that were skipped',
  examples: ['waymark prune --keep-last 20 --dry-run', 'waymark prune nightly --keep-daily 7 --max-age 30d --yes'],
  run,
}

async function run(context) {
  const { optionalSessionId } = require('../input/references.js')
  const retention = retentionOf(context.options)
  const agents = context.options['keep-agents']
  const limit = agents === undefined ? {} : { maxCheckpointsPerAgent: wholeNumber('--keep-agents', agents) }
  const store = await context.store(limit)
  const id = await optionalSessionId(store, context.args.session)
  const rules = retention ? { retention } : {}
  const afterCancel = 'the remaining checkpoints are unchanged. The next prune resumes.'
  if (id !== undefined) await unleasedSession(store, id)
  const planned = await context.runTask(
    { title: 'Planning', afterCancel: 'nothing was changed.', isQuiet: true },
    (work) => store.prune(id, { ...rules, ...work, dryRun: true }),
  )
  const { plan, leased } = await withoutLeased(store, planned)
  const isDryRun = context.options['dry-run'] === true
  if (isDryRun || plan.removed.length === 0) return report({ ...plan, dryRun: isDryRun }, leased, context)
  const lines = [
    `${describeRemoved(plan)} will be deleted; ${describeKept(plan)}.`,
    ...plan.removed.slice(0, MAX_LINES).map((entry) => `  ${nameOf(entry)}: ${entry.reason}`),
  ]
  if (plan.removed.length > MAX_LINES)
    lines.push(`  and ${plan.removed.length - MAX_LINES} more; --dry-run shows all of them`)
  lines.push(...leased.map(skippedMessage))
  const { labelsAndPins, removePlanned } = require('./shared/planned-removal.js')
  const marks = context.options.yes ? undefined : await labelsAndPins(store, plan)
  if (!(await context.confirm(lines, 'Delete them permanently?'))) return context.declined()
  const result = await context.runTask({ title: 'Pruning', afterCancel }, (work) =>
    marks ? removePlanned(store, plan, marks, work) : store.prune(id, { ...rules, ...work }),
  )
  return report(result, leased, context)
}

/** Splits a plan: the plan for sessions without a lease, and the leased sessions that it would have changed. */
async function withoutLeased(store, planned) {
  const infos = planned.removed.length > 0 ? leasedSessions(await store.sessionsInfo()) : []
  const leased = infos.filter(({ id }) => planned.removed.some(({ sessionId }) => sessionId === id))
  const ids = new Set(leased.map(({ id }) => id))
  const removed = planned.removed.filter(({ sessionId }) => !ids.has(sessionId))
  const freedBytes = removed.reduce((sum, entry) => sum + entry.sizeBytes, 0)
  const kept = planned.kept + planned.removed.length - removed.length
  return { plan: { ...planned, removed, freedBytes, kept }, leased }
}

/** The rules on the command line, or `undefined` if there are none. */
function retentionOf(options) {
  const readers = {
    'keep-last': ['keepLast', wholeNumber],
    'keep-hourly': ['keepHourly', wholeNumber],
    'keep-daily': ['keepDaily', wholeNumber],
    'max-age': ['maxAgeMs', durationMs],
    'max-bytes': ['maxBytes', sizeBytes],
  }
  const given = Object.entries(readers).filter(([name]) => options[name] !== undefined)
  const retention = Object.fromEntries(
    given.map(([name, [member, read]]) => [member, read(`--${name}`, options[name])]),
  )
  if (given.length > 0) return options['labelled-too'] ? { ...retention, keepLabelled: false } : retention
  if (!options['labelled-too']) return undefined
  const { usageError } = require('../cli-error.js')
  throw usageError('--labelled-too needs a rule such as --keep-last 20. See waymark prune --help.')
}

function describeRemoved({ removed, freedBytes }) {
  const sessions = new Set(removed.map(({ sessionId }) => sessionId)).size
  return `${count(removed.length, 'checkpoint')} of ${count(sessions, 'session')} (${bytes(freedBytes)})`
}

function describeKept({ kept }) {
  return `${kept} ${kept === 1 ? 'is' : 'are'} kept`
}

function nameOf({ sessionId, agentId, checkpointId }) {
  return [sessionId, agentId, checkpointId].filter((part) => part !== undefined).join('/')
}

/** One line for each session with checkpoints that could not be deleted. */
function problemsOf(failed, leased) {
  const skipped = new Set(leased.map(({ id }) => id))
  const groups = new Map()
  for (const entry of failed) {
    if (skipped.has(entry.sessionId)) continue
    const group = groups.get(entry.sessionId) ?? []
    groups.set(entry.sessionId, group.concat(entry))
  }
  return [...leased.map(skippedMessage), ...[...groups.values()].map(problemOf)]
}

function problemOf([first, ...others]) {
  const next = first.code.startsWith('WAYMARK_LEASE')
    ? 'Stop that process, or wait until its lease has expired.'
    : 'The next prune retries.'
  const more = others.length > 0 ? ` and ${others.length} more of that session` : ''
  return `${nameOf(first) || 'The store'}${more} could not be deleted: ${asSentence(first.error)} ${next}`
}

function report(result, leased, { options }) {
  // A dry run that skips leased sessions is complete.
  const isIncomplete = result.failed.length > 0 || (leased.length > 0 && !result.dryRun)
  return {
    exitCode: isIncomplete ? FAILED : DONE,
    json: { ...result, owned: leasesOf(leased) },
    problems: problemsOf(result.failed, leased),
    text(terminal) {
      const { removed, dryRun } = result
      const lines = dryRun && removed.length > 0 ? planTable(removed, terminal) : []
      if (removed.length === 0) lines.push(nothingToDelete(result, options))
      else lines.push(`${describeRemoved(result)} ${dryRun ? 'would be deleted' : 'deleted'}; ${describeKept(result)}.`)
      return lines
    },
  }
}

/** Without a rule and without a stored retention nothing is deleted; the message says so. */
function nothingToDelete(result, options) {
  const hasRule = retentionOf(options) !== undefined || options['keep-agents'] !== undefined
  return `Nothing to delete; ${describeKept(result)}.${hasRule ? '' : ' Give a rule such as --keep-last 20.'}`
}

function planTable(removed, terminal) {
  const { table } = require('../terminal/table.js')
  const columns = [
    { title: 'CHECKPOINT', minWidth: 20 },
    { title: 'CREATED', alignRight: true },
    { title: 'SIZE', alignRight: true },
    { title: 'REASON', minWidth: 12 },
  ]
  const rows = removed.map((entry) => [nameOf(entry), ago(entry.timestamp), bytes(entry.sizeBytes), entry.reason])
  return table(columns, rows, terminal)
}
