// Whether everything that is stored is whole.

'use strict'

const { DONE, FAILED } = require('../complaint.js')
const { reasonOf, remediesFor, tally } = require('../damage.js')
const { eachOf } = require('../work.js')
const { line } = require('../terminal/lines.js')
const { count } = require('../terminal/units.js')

module.exports = {
  name: 'verify',
  positionals: [
    { name: 'session', optional: true, meaning: 'This one alone. A single word that begins like a location is one.' },
  ],
  options: [],
  notes: ['Exits with 1 if anything is damaged or unreadable. Nothing is changed.'],
  document: '{ location, whole, sessions }, each session as verifySession() gives it',
  examples: ['waymark verify', 'waymark verify nightly', 'waymark verify sqlite:./store.db --json'],
  run,
}

async function run(call) {
  const store = await call.store()
  const ids = await sessionsOf(store, call.words.session)
  const whole = 'verify only reads. The next one begins anew.'
  const sessions = await call.work({ title: 'Verifying', whole }, ({ onProgress, signal }) =>
    eachOf(ids, 'Verifying', onProgress, (id, told) => verified(store, id, { onProgress: told, signal })),
  )
  const isWhole = sessions.every((session) => session.whole)
  return {
    exitCode: isWhole ? DONE : FAILED,
    json: { location: store.getBaseDir(), whole: isWhole, sessions },
    text: (terminal) => [
      ...sessions.flatMap((session) => linesOf(terminal, store, session)),
      ids.length === 0 ? `No sessions in ${terminal.paint(store.getBaseDir())}.` : conclusion(sessions),
    ],
  }
}

/** One that may not be looked into keeps nobody from the others. */
async function verified(store, sessionId, watch) {
  try {
    return await store.verifySession(sessionId, watch)
  } catch (error) {
    if (!['WAYMARK_IO', 'WAYMARK_BUSY'].includes(error.code)) throw error
    const file = { path: sessionId, whole: false, error: error.message, code: error.code }
    return { sessionId, whole: false, checkpoints: [], agentCheckpoints: [], files: [file] }
  }
}

async function sessionsOf(store, word) {
  if (word === undefined) return (await store.sessionsInfo()).map(({ id }) => id)
  const { sessionId } = require('../references.js')
  return [await sessionId(store, word)]
}

function linesOf(terminal, store, verification) {
  const { sessionId, whole, checkpoints, agentCheckpoints, files } = verification
  const facts = [
    count(checkpoints.length, 'checkpoint'),
    agentCheckpoints.length > 0 ? `${agentCheckpoints.length} of agents` : '',
    count(files.length, 'document'),
  ]
  const style = whole ? 'green' : 'red'
  const damaged = [...checkpoints, ...agentCheckpoints, ...files].filter((item) => !item.whole)
  return [
    line(terminal, [
      [`${terminal.glyphs[whole ? 'completed' : 'failed']} ${sessionId}`, style],
      [`  ${facts.filter(Boolean).join(', ')}`],
      [whole ? '' : `: ${tally(damaged)}`, style],
    ]),
    ...damaged.map((item) => line(terminal, [[`    ${nameOf(item)}: ${reasonOf(item.error)}`]])),
    ...(whole ? [] : remediesFor(store, verification).map((remedy) => `    ${terminal.paint(remedy)}`)),
  ]
}

/** What is damaged, without the path of the store, which would leave no room for what is wrong. */
function nameOf({ id, agentId, path }) {
  if (id !== undefined) return agentId === undefined ? id : `${agentId}/${id}`
  return path.split(/[/\\]/).at(-1)
}

function conclusion(sessions) {
  const damaged = sessions.filter(({ whole }) => !whole).length
  if (damaged === 0) return `${count(sessions.length, 'session')}, all whole.`
  return `${damaged} of ${count(sessions.length, 'session')} ${damaged === 1 ? 'is' : 'are'} not whole.`
}
