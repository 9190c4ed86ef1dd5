// Verifies sessions.

'use strict'

const { DONE, FAILED } = require('../cli-error.js')
const { ONE_SESSION } = require('../input/positionals.js')
const { line } = require('../terminal/lines.js')
const { count } = require('../terminal/units.js')
const { baseName, countDamage, damageLine, remedies } = require('../views/damage.js')
const { forEachSession } = require('./shared/long-task.js')

module.exports = {
  name: 'verify',
  positionals: [ONE_SESSION],
  options: [],
  notes: ['The exit code is 1 if anything is damaged or unreadable. Nothing is changed.'],
  jsonResult: '{ location, whole, sessions }, each session as verifySession() returns it',
  examples: ['waymark verify', 'waymark verify nightly', 'waymark verify sqlite:./store.db --json'],
  run,
}

async function run(context) {
  const store = await context.store()
  const ids = await requestedIds(store, context.args.session)
  const afterCancel = 'verify only reads. The next one starts again.'
  const sessions = await context.runTask({ title: 'Verifying', afterCancel }, ({ onProgress, signal }) =>
    forEachSession(ids, 'Verifying', onProgress, (id, report) => verifyOne(store, id, { onProgress: report, signal })),
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

/** A session that cannot be read does not prevent the verification of the others. */
async function verifyOne(store, sessionId, work) {
  try {
    return await store.verifySession(sessionId, work)
  } catch (error) {
    if (!['WAYMARK_IO', 'WAYMARK_BUSY'].includes(error.code)) throw error
    const file = { path: sessionId, whole: false, error: error.message, code: error.code }
    return { sessionId, whole: false, checkpoints: [], agentCheckpoints: [], files: [file] }
  }
}

async function requestedIds(store, reference) {
  if (reference === undefined) return (await store.sessionsInfo()).map(({ id }) => id)
  const { sessionId } = require('../input/references.js')
  return [await sessionId(store, reference)]
}

function linesOf(terminal, store, verification) {
  const { sessionId, whole, checkpoints, agentCheckpoints, files } = verification
  const counts = [
    count(checkpoints.length, 'checkpoint'),
    agentCheckpoints.length > 0 ? `${agentCheckpoints.length} of agents` : '',
    count(files.length, 'document'),
  ]
  const style = whole ? 'green' : 'red'
  const damaged = [...checkpoints, ...agentCheckpoints, ...files].filter((item) => !item.whole)
  return [
    line(terminal, [
      [`${terminal.glyphs[whole ? 'completed' : 'failed']} ${sessionId}`, style],
      [`  ${counts.filter(Boolean).join(', ')}`],
      [whole ? '' : `: ${countDamage(damaged)}`, style],
    ]),
    ...damaged.map((item) => line(terminal, [[`    ${damageLine(item, nameOf(item))}`]])),
    ...(whole ? [] : remedies(store, verification).map((remedy) => `    ${terminal.paint(remedy)}`)),
  ]
}

/** The name of an item within its session. */
function nameOf({ id, agentId, path }) {
  if (id !== undefined) return agentId === undefined ? id : `${agentId}/${id}`
  return baseName(path)
}

function conclusion(sessions) {
  const damaged = sessions.filter(({ whole }) => !whole).length
  if (damaged === 0) return `${count(sessions.length, 'session')}, all whole.`
  return `${damaged} of ${count(sessions.length, 'session')} ${damaged === 1 ? 'is' : 'are'} not whole.`
}
