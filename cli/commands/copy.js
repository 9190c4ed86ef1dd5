// Copies sessions to another store.

'use strict'

const { usageError } = require('../cli-error.js')
const { bytes, count } = require('../terminal/units.js')
const { assertNotLeased } = require('./shared/lease.js')

const MAX_NAMES = 10

module.exports = {
  name: 'copy',
  positionals: [
    { name: 'from', description: 'The location of the source store.' },
    { name: 'to', description: 'The location of the target store, which is created if it does not exist.' },
  ],
  options: [{ name: 'session', value: 'session', description: 'Copy only this session.' }],
  hasNoStore: true,
  isDestructive: true,
  notes: [
    'Sessions that the target store already has are replaced where they differ, after a confirmation. Running an interrupted ' +
      'copy again resumes it.',
  ],
  advice: {
    WAYMARK_LEASE_LOST:
      'Earlier copies are complete: stop that process, or wait until its lease has expired, and copy again.',
  },
  jsonResult: 'the result of copyTo(), with from and to',
  examples: [
    'waymark copy ./sessions sqlite:./store.db',
    'waymark copy ./sessions postgres://db/agents --session nightly',
  ],
  run,
}

async function run(context) {
  const { optionalSessionId } = require('../input/references.js')
  const from = await context.storeAt(context.args.from)
  const sessionId = await optionalSessionId(from, context.options.session)
  const to = await context.storeAt(context.args.to, { create: true })
  if (from.getBaseDir() === to.getBaseDir()) throw usageError('Both locations are the same: choose another target.')
  const lines = await describeOverlap(from, to, sessionId)
  if (lines.length > 0 && !(await context.confirm(lines, 'Copy them?'))) return context.declined()
  const title = sessionId === undefined ? 'Copying' : `Copying ${sessionId}`
  const afterCancel = 'the copied items stay. The next copy resumes.'
  const only = sessionId === undefined ? {} : { sessionId }
  const result = await context.runTask({ title, afterCancel }, (work) => from.copyTo(to, { ...work, ...only }))
  const { sessions, checkpoints, documents, unchanged, sizeBytes } = result
  return {
    json: { from: from.getBaseDir(), to: to.getBaseDir(), ...result },
    text: (terminal) => [
      `${count(sessions.length, 'session')} ${sessions.length === 1 ? 'is' : 'are'} in ${terminal.paint(to.getBaseDir())}: ` +
        `${count(checkpoints, 'checkpoint')} and ${count(documents, 'document')} copied (${bytes(sizeBytes)}), ${unchanged} unchanged.`,
    ],
  }
}

/** The lines to confirm for sessions that both stores have; none if there are no such sessions. */
async function describeOverlap(from, to, sessionId) {
  const existing = await to.sessionsInfo()
  if (existing.length === 0) return []
  const ids = sessionId === undefined ? (await from.sessionsInfo()).map(({ id }) => id) : [sessionId]
  const copied = new Set(ids)
  const both = existing.filter(({ id }) => copied.has(id))
  if (both.length === 0) return []
  // The store refuses a leased session only after it has copied others.
  both.forEach(assertNotLeased)
  const names =
    both
      .slice(0, MAX_NAMES)
      .map(({ id }) => id)
      .join(', ') + (both.length > MAX_NAMES ? ` and ${both.length - MAX_NAMES} more` : '')
  return [
    `${count(both.length, 'session')} of ${ids.length} will be replaced in ${to.getBaseDir()} where they differ: ${names}.`,
  ]
}
