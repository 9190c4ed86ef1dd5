// Stores checkpoints in another encoding.

'use strict'

const { DONE, FAILED, usageError } = require('../cli-error.js')
const { ENCODINGS, ONE_SESSION } = require('../input/positionals.js')
const { line } = require('../terminal/lines.js')
const { bytes, count } = require('../terminal/units.js')
const { damageLine } = require('../views/damage.js')
const { assertNotLeased, leasedSessions, leasesOf, skippedMessage } = require('./shared/lease.js')
const { forEachSession } = require('./shared/long-task.js')

module.exports = {
  name: 'convert',
  positionals: [{ name: 'encoding', values: ENCODINGS, description: 'json, gzip, zstd or delta.' }, ONE_SESSION],
  options: [],
  isDestructive: true,
  notes: [
    'The contents of the checkpoints do not change, and each is whole at any time. Damaged ones are skipped (exit code 1).',
  ],
  jsonResult: '{ encoding, sessions, owned }, each session as convert() returns it',
  examples: ['waymark convert delta', 'waymark convert zstd nightly --yes'],
  run,
}

async function run(context) {
  const { encoding } = context.args
  if (!ENCODINGS.includes(encoding)) {
    const { didYouMean } = require('../input/suggest.js')
    throw usageError(
      `There is no encoding ${JSON.stringify(encoding)}: choose one of ${ENCODINGS.join(', ')}.${didYouMean(encoding, ENCODINGS)}`,
    )
  }
  const store = await context.store()
  const { sessions, leased } = await plannedSessions(store, context.args.session, encoding)
  const affected = sessions.filter(({ checkpoints }) => checkpoints > 0)
  if (affected.length > 0 && !(await context.confirm([describePlan(affected, encoding)], 'Convert them?')))
    return context.declined()
  const afterCancel = 'each checkpoint is in the old encoding or the new one. The next convert resumes.'
  const ids = affected.map(({ id }) => id)
  const results = await context.runTask({ title: 'Converting', afterCancel }, ({ onProgress, signal }) =>
    forEachSession(ids, 'Converting', onProgress, (id, report) =>
      store.convert(id, encoding, { onProgress: report, signal }),
    ),
  )
  const isIncomplete = leased.length > 0 || results.some(({ skipped }) => skipped.length > 0)
  return {
    exitCode: isIncomplete ? FAILED : DONE,
    json: { encoding, sessions: results, owned: leasesOf(leased) },
    problems: leased.map(skippedMessage),
    text: (terminal) => [
      ...(results.length === 0 ? [`There is nothing to convert to ${encoding}.`] : []),
      ...results.flatMap((result) => linesOf(terminal, result)),
    ],
  }
}

/**
 * The sessions to convert, each with the number and bytes of its checkpoints in other encodings. A leased session is refused if it
 * was named, and left out if all were meant.
 */
async function plannedSessions(store, reference, encoding) {
  const { infosOf, optionalSessionId } = require('../input/references.js')
  const only = await optionalSessionId(store, reference)
  const infos = await infosOf(store, only)
  if (only !== undefined) infos.forEach(assertNotLeased)
  const leased = leasedSessions(infos)
  const sessions = []
  for (const info of infos) {
    if (leased.includes(info)) continue
    const lists = [await store.listCheckpointInfo(info.id)]
    for (const agentId of await store.listAgents(info.id)) lists.push(await store.agent(info.id, agentId).info())
    const others = lists.flatMap(({ checkpoints }) => checkpoints).filter((each) => each.encoding !== encoding)
    const sizeBytes = others.reduce((sum, each) => sum + each.sizeBytes, 0)
    sessions.push({ id: info.id, checkpoints: others.length, sizeBytes })
  }
  return { sessions, leased }
}

function describePlan(sessions, encoding) {
  const checkpoints = sessions.reduce((sum, session) => sum + session.checkpoints, 0)
  const size = sessions.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const scope = sessions.length === 1 ? `of session ${sessions[0].id}` : `of ${count(sessions.length, 'session')}`
  return `${count(checkpoints, 'checkpoint')} ${scope} (${bytes(size)}) will be converted to ${encoding}.`
}

function linesOf(terminal, { sessionId, converted, unchanged, skipped, bytesBefore, bytesAfter }) {
  const counts = `${converted} converted, ${unchanged} unchanged, ${bytes(bytesBefore)} ${terminal.glyphs.arrow} ${bytes(bytesAfter)}`
  return [
    `${terminal.paint(sessionId, 'bold')}: ${counts}`,
    ...skipped.map((item) => line(terminal, [[`  skipped: ${damageLine(item, item.id)}`, 'red']])),
  ]
}
