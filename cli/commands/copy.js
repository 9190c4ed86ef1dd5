// Copies sessions into another store.

'use strict'

const { wrongUse } = require('../complaint.js')
const { refuseIfOwned } = require('../owner.js')
const { bytes, count } = require('../terminal/units.js')

const SHOWN = 10

module.exports = {
  name: 'copy',
  positionals: [
    { name: 'from', meaning: 'The location of a store.' },
    { name: 'to', meaning: 'The location of another, which is made if it does not exist.' },
  ],
  options: [{ name: 'session', value: 'session', meaning: 'This one alone; without it all of them.' }],
  hasNoStore: true,
  isDestructive: true,
  notes: [
    'Sessions that the other store has already are replaced where they differ: it asks before that. A copy that was interrupted ' +
      'goes on when it is called again.',
  ],
  advice: {
    WAYMARK_LEASE_LOST:
      'What was copied before stays: stop that process, or wait until its lease is over, and copy again.',
  },
  document: 'what copyTo() gives, and from and to',
  examples: [
    'waymark copy ./sessions sqlite:./store.db',
    'waymark copy ./sessions postgres://db/agents --session nightly',
  ],
  run,
}

async function run(call) {
  const from = await call.storeAt(call.words.from)
  const sessionId = await wantedSession(from, call.options.session)
  const to = await call.storeAt(call.words.to, { create: true })
  if (from.getBaseDir() === to.getBaseDir()) throw wrongUse('Both places are the same: name another one to copy to.')
  const lines = await overlap(from, to, sessionId)
  if (lines.length > 0 && !(await call.mayGoOn(lines, 'Go on?'))) return call.declined()
  const title = sessionId === undefined ? 'Copying' : `Copying ${sessionId}`
  const whole = 'what was copied stays. The next copy goes on from there.'
  const only = sessionId === undefined ? {} : { sessionId }
  const result = await call.work({ title, whole }, (watch) => from.copyTo(to, { ...watch, ...only }))
  const { sessions, checkpoints, documents, unchanged, sizeBytes } = result
  return {
    json: { from: from.getBaseDir(), to: to.getBaseDir(), ...result },
    text: (terminal) => [
      `${count(sessions.length, 'session')} ${sessions.length === 1 ? 'is' : 'are'} in ${terminal.paint(to.getBaseDir())}: ` +
        `${count(checkpoints, 'checkpoint')} and ${count(documents, 'document')} copied (${bytes(sizeBytes)}), ${unchanged} there already.`,
    ],
  }
}

async function wantedSession(store, word) {
  if (word === undefined) return undefined
  const { sessionId } = require('../references.js')
  return sessionId(store, word)
}

/** What to say of sessions that are in both places; nothing if there are none. */
async function overlap(from, to, sessionId) {
  const there = await to.sessionsInfo()
  if (there.length === 0) return []
  const ids = sessionId === undefined ? (await from.sessionsInfo()).map(({ id }) => id) : [sessionId]
  const wanted = new Set(ids)
  const both = there.filter(({ id }) => wanted.has(id))
  if (both.length === 0) return []
  // The store would, but only after it has copied others.
  both.forEach(refuseIfOwned)
  const names =
    both
      .slice(0, SHOWN)
      .map(({ id }) => id)
      .join(', ') + (both.length > SHOWN ? ` and ${both.length - SHOWN} more` : '')
  return [
    `${count(both.length, 'session')} of ${ids.length} will be replaced in ${to.getBaseDir()} where they differ: ${names}.`,
  ]
}
