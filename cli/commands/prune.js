// Removes the checkpoints that do not stay.

'use strict'

const { DONE, FAILED } = require('../complaint.js')
const { durationMs, sizeBytes, wholeNumber } = require('../quantities.js')
const { plainWords } = require('../explain.js')
const { leftAlone, ownedAmong, unownedSession } = require('../owner.js')
const { ago, bytes, count } = require('../terminal/units.js')

const SHOWN = 10

module.exports = {
  name: 'prune',
  positionals: [
    { name: 'session', optional: true, meaning: 'This one alone. A single word that begins like a location is one.' },
  ],
  options: [
    { name: 'keep-last', value: 'number', meaning: 'Keep the newest so many of each session.' },
    { name: 'keep-hourly', value: 'number', meaning: 'Keep the newest of each of the last so many hours.' },
    { name: 'keep-daily', value: 'number', meaning: 'Keep the newest of each of the last so many days.' },
    { name: 'max-age', value: 'duration', meaning: 'Remove those that are older: 90s, 12h, 7d, 2w.' },
    { name: 'max-bytes', value: 'size', meaning: 'Remove the oldest until a session takes no more: 500MB, 2GiB.' },
    { name: 'labelled-too', meaning: 'Remove those with a label as well, which otherwise stay.' },
    { name: 'keep-agents', value: 'number', meaning: 'Keep the newest so many of each agent; without it all.' },
    { name: 'dry-run', short: 'n', meaning: 'Only say what would go, and why.' },
  ],
  isDestructive: true,
  notes: [
    'Without a rule, what was set for each session with setRetention() is in force, and what has expired goes. The newest ' +
      'checkpoint of a session always stays, and so do pinned ones.',
  ],
  document: 'what prune() gives, and owned: the sessions that were left alone',
  examples: ['waymark prune --keep-last 20 --dry-run', 'waymark prune nightly --keep-daily 7 --max-age 30d --yes'],
  run,
}

async function run(call) {
  const retention = retentionOf(call.options)
  const agents = call.options['keep-agents']
  const limit = agents === undefined ? {} : { maxCheckpointsPerAgent: wholeNumber('--keep-agents', agents) }
  const store = await call.store(limit)
  const id = await sessionOf(store, call.words.session)
  const rules = retention ? { retention } : {}
  const whole = 'what was removed is gone, the rest is as it was. The next prune goes on from there.'
  if (id !== undefined) await unownedSession(store, id)
  const planned = await call.work({ title: 'Looking', whole: 'nothing was changed.', isQuiet: true }, (watch) =>
    store.prune(id, { ...rules, ...watch, dryRun: true }),
  )
  const { plan, owned } = await withoutOwned(store, planned)
  const isDryRun = call.options['dry-run'] === true
  if (isDryRun || plan.removed.length === 0) return report({ ...plan, dryRun: isDryRun }, owned, call)
  const lines = [`${sentence(plan)} will be removed; ${staying(plan)}.`, ...plan.removed.slice(0, SHOWN).map(reasonOf)]
  if (plan.removed.length > SHOWN) lines.push(`  and ${plan.removed.length - SHOWN} more; --dry-run shows them all`)
  lines.push(...owned.map(leftAlone))
  const { marksOf, removeAnnounced } = require('../removal.js')
  const marks = call.options.yes ? undefined : await marksOf(store, plan)
  if (!(await call.mayGoOn(lines, 'Remove them for good?'))) return call.declined()
  const result = await call.work({ title: 'Pruning', whole }, (watch) =>
    marks ? removeAnnounced(store, plan, marks, watch) : store.prune(id, { ...rules, ...watch }),
  )
  return report(result, owned, call)
}

/** What would be removed of sessions that nobody owns, and the owned ones of which something would go. */
async function withoutOwned(store, planned) {
  const infos = planned.removed.length > 0 ? ownedAmong(await store.sessionsInfo()) : []
  const owned = infos.filter(({ id }) => planned.removed.some(({ sessionId }) => sessionId === id))
  const ids = new Set(owned.map(({ id }) => id))
  const removed = planned.removed.filter(({ sessionId }) => !ids.has(sessionId))
  const freedBytes = removed.reduce((sum, entry) => sum + entry.sizeBytes, 0)
  const kept = planned.kept + planned.removed.length - removed.length
  return { plan: { ...planned, removed, freedBytes, kept }, owned }
}

async function sessionOf(store, word) {
  if (word === undefined) return undefined
  const { sessionId } = require('../references.js')
  return sessionId(store, word)
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
  const { wrongUse } = require('../complaint.js')
  throw wrongUse('--labelled-too goes with a rule, such as --keep-last 20. See waymark prune --help.')
}

function sentence({ removed, freedBytes }) {
  const sessions = new Set(removed.map(({ sessionId }) => sessionId)).size
  return `${count(removed.length, 'checkpoint')} of ${count(sessions, 'session')} (${bytes(freedBytes)})`
}

function staying({ kept }) {
  return `${kept} ${kept === 1 ? 'stays' : 'stay'}`
}

function nameOf({ sessionId, agentId, checkpointId }) {
  return [sessionId, agentId, checkpointId].filter((part) => part !== undefined).join('/')
}

function reasonOf(entry) {
  return `  ${nameOf(entry)}: ${entry.reason}`
}

/** What could not be removed: a line for each session, however many checkpoints it concerns. */
function troublesOf(failed, owned) {
  const isOwned = new Set(owned.map(({ id }) => id))
  const groups = new Map()
  for (const entry of failed) {
    if (isOwned.has(entry.sessionId)) continue
    const group = groups.get(entry.sessionId) ?? []
    groups.set(entry.sessionId, group.concat(entry))
  }
  return [...owned.map(leftAlone), ...[...groups.values()].map(troubleOf)]
}

function troubleOf([first, ...others]) {
  const next = first.code.startsWith('WAYMARK_LEASE')
    ? 'Stop that process, or wait until its lease is over.'
    : 'The next prune tries again.'
  const more = others.length > 0 ? ` and ${others.length} more of that session` : ''
  return `${nameOf(first) || 'The store'}${more} stayed: ${plainWords(first.error)}. ${next}`
}

function report(result, owned, { options }) {
  // A dry run has said what it was asked for.
  const isLacking = result.failed.length > 0 || (owned.length > 0 && !result.dryRun)
  return {
    exitCode: isLacking ? FAILED : DONE,
    json: { ...result, owned: owned.map(({ id, lease }) => Object.assign({ sessionId: id }, lease)) },
    troubles: troublesOf(result.failed, owned),
    text(terminal) {
      const { removed, dryRun } = result
      const lines = dryRun && removed.length > 0 ? planTable(removed, terminal) : []
      if (removed.length === 0) lines.push(nothing(result, options))
      else lines.push(`${sentence(result)} ${dryRun ? 'would go' : 'removed'}; ${staying(result)}.`)
      return lines
    },
  }
}

/** Without a rule nothing may be in force: then somebody wonders why nothing goes. */
function nothing(result, options) {
  const hasRule = retentionOf(options) !== undefined || options['keep-agents'] !== undefined
  return `Nothing to remove; ${staying(result)}.${hasRule ? '' : ' A rule such as --keep-last 20 would say what goes.'}`
}

function planTable(removed, terminal) {
  const { table } = require('../terminal/table.js')
  const columns = [
    { title: 'CHECKPOINT', least: 20 },
    { title: 'MADE', right: true },
    { title: 'SIZE', right: true },
    { title: 'REASON', least: 12 },
  ]
  const rows = removed.map((entry) => [nameOf(entry), ago(entry.timestamp), bytes(entry.sizeBytes), entry.reason])
  return table(columns, rows, terminal)
}
