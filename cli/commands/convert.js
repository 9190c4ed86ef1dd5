// Stores checkpoints in another encoding.

'use strict'

const { DONE, FAILED, wrongUse } = require('../complaint.js')
const { reasonOf } = require('../damage.js')
const { leftAlone, ownedAmong, refuseIfOwned } = require('../owner.js')
const { line } = require('../terminal/lines.js')
const { eachOf } = require('../work.js')
const { bytes, count } = require('../terminal/units.js')

const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

module.exports = {
  name: 'convert',
  positionals: [
    { name: 'encoding', meaning: 'json, gzip, zstd or delta.' },
    { name: 'session', optional: true, meaning: 'This one alone. A single word that begins like a location is one.' },
  ],
  options: [],
  isDestructive: true,
  notes: [
    'Nothing else about them changes, and each is whole at every instant. What is damaged is left as it is (exit 1).',
  ],
  document: '{ encoding, sessions, owned }, each session as convert() gives it',
  examples: ['waymark convert delta', 'waymark convert zstd nightly --yes'],
  run,
}

async function run(call) {
  const { encoding } = call.words
  if (!ENCODINGS.includes(encoding)) {
    const { didYouMean } = require('../near.js')
    throw wrongUse(
      `There is no encoding ${JSON.stringify(encoding)}: it is ${ENCODINGS.join(', ')}.${didYouMean(encoding, ENCODINGS)}`,
    )
  }
  const store = await call.store()
  const { sessions, owned } = await candidates(store, call.words.session, encoding)
  const affected = sessions.filter(({ checkpoints }) => checkpoints > 0)
  if (affected.length > 0 && !(await call.mayGoOn(plan(affected, encoding), 'Convert them?'))) return call.declined()
  const whole = 'each checkpoint is in the old encoding or the new one. The next convert goes on from there.'
  const ids = affected.map(({ id }) => id)
  const results = await call.work({ title: 'Converting', whole }, ({ onProgress, signal }) =>
    eachOf(ids, 'Converting', onProgress, (id, told) => store.convert(id, encoding, { onProgress: told, signal })),
  )
  const isSkipped = owned.length > 0 || results.some(({ skipped }) => skipped.length > 0)
  return {
    exitCode: isSkipped ? FAILED : DONE,
    json: { encoding, sessions: results, owned: owned.map(({ id, lease }) => ({ sessionId: id, ...lease })) },
    troubles: owned.map(leftAlone),
    text: (terminal) => [
      ...(results.length === 0 ? [`Nothing to convert to ${encoding}.`] : []),
      ...results.flatMap((result) => linesOf(terminal, result)),
    ],
  }
}

/**
 * The sessions that are meant, with how many of their checkpoints are in another encoding, and their bytes; of all sessions, those
 * that somebody owns are left out.
 */
async function candidates(store, word, encoding) {
  const { infosOf, sessionId } = require('../references.js')
  const wanted = word === undefined ? undefined : await sessionId(store, word)
  const infos = await infosOf(store, wanted)
  if (wanted !== undefined) infos.forEach(refuseIfOwned)
  const owned = ownedAmong(infos)
  const sessions = []
  for (const info of infos) {
    if (owned.includes(info)) continue
    const lists = [await store.listCheckpointInfo(info.id)]
    for (const agentId of await store.listAgents(info.id)) lists.push(await store.agent(info.id, agentId).info())
    const others = lists.flatMap(({ checkpoints }) => checkpoints).filter((each) => each.encoding !== encoding)
    const sizeBytes = others.reduce((sum, each) => sum + each.sizeBytes, 0)
    sessions.push({ id: info.id, checkpoints: others.length, sizeBytes })
  }
  return { sessions, owned }
}

function plan(sessions, encoding) {
  const checkpoints = sessions.reduce((sum, session) => sum + session.checkpoints, 0)
  const size = sessions.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const whose = sessions.length === 1 ? `of session ${sessions[0].id}` : `of ${count(sessions.length, 'session')}`
  return [`${count(checkpoints, 'checkpoint')} ${whose} (${bytes(size)}) will be stored anew as ${encoding}.`]
}

function linesOf(terminal, { sessionId, converted, unchanged, skipped, bytesBefore, bytesAfter }) {
  const facts = `${converted} converted, ${unchanged} unchanged, ${bytes(bytesBefore)} ${terminal.glyphs.arrow} ${bytes(bytesAfter)}`
  return [
    `${terminal.paint(sessionId, 'bold')}: ${facts}`,
    ...skipped.map(({ id, error }) => line(terminal, [[`  left as it is: ${id}: ${reasonOf(error)}`, 'red']])),
  ]
}
