// What people call sessions and checkpoints: ids, beginnings of ids, labels, `latest`, `latest~2`.

'use strict'

const { failure, wrongUse } = require('./complaint.js')

const LATEST = /^latest(?:~(\d{1,15}))?$/
const SHOWN = 5

/** `session/ref` in its two parts; `ref` is `undefined` if there is none. A label may have slashes of its own. */
function split(word) {
  const at = word.indexOf('/')
  return at < 0 ? { session: word, ref: undefined } : { session: word.slice(0, at), ref: word.slice(at + 1) }
}

/** The id of the session that a word means: its id, or a unique beginning of it. */
async function sessionId(store, word) {
  const saved = await store.listSessions()
  if (saved.includes(word)) return word
  // A session that was never saved has no document, but checkpoints.
  const ids = (await store.sessionsInfo()).map(({ id }) => id)
  if (ids.includes(word)) return word
  const fitting = word === '' ? [] : ids.filter((id) => id.startsWith(word))
  if (fitting.length === 1) return fitting[0]
  if (fitting.length > 1) {
    throw wrongUse(`Several sessions begin with ${quote(word)}: write more of the id.`, few(fitting))
  }
  throw wrongUse(unknownSession(store, word, ids))
}

function unknownSession(store, word, ids) {
  const { isLocation } = require('./location.js')
  const { didYouMean } = require('./near.js')
  const { existsSync } = require('node:fs')
  const { session, ref } = split(word)
  if (ref !== undefined && ids.includes(session))
    return `${quote(word)} is a checkpoint, and a session is wanted here: write ${session}.`
  const sentence = `There is no session ${quote(word)} in ${store.getBaseDir()}.`
  if (isLocation(word)) return `${sentence} The session comes first, the location last.`
  if (word !== '' && existsSync(word)) return `${sentence} If you mean the place, write ./${word}.`
  return `${sentence}${didYouMean(word, ids)} waymark ls lists the sessions.`
}

/** All checkpoints of a session, newest first: `{ id, info }`, or `{ id, damaged }` if nothing can be found out about one. */
async function checkpointsOf(store, session) {
  const { checkpoints, damaged } = await store.listCheckpointInfo(session)
  const readable = checkpoints.map((info) => ({ id: info.id, info }))
  const rest = damaged.map((entry) => ({ id: entry.id, damaged: entry }))
  // Ids are made in order of time, and equally long: those of damaged ones find their place among the others.
  return rest.length === 0 ? readable : [...readable, ...rest].toSorted((a, b) => (a.id < b.id ? 1 : -1))
}

/** The checkpoint that `ref` means among those of a session, as `checkpointsOf()` gives them. */
function pick(checkpoints, ref, session) {
  const exact = checkpoints.find(({ id }) => id === ref)
  if (exact) return exact
  const latest = LATEST.exec(ref)
  if (latest) return latestBut(checkpoints, Number(latest[1] ?? 0), session)
  // As the store does: of several that have a label, the newest.
  const labelled = checkpoints.find(({ info }) => info?.label === ref)
  if (labelled) return labelled
  const fitting = ref === '' ? [] : checkpoints.filter(({ id }) => id.startsWith(ref))
  if (fitting.length === 1) return fitting[0]
  if (fitting.length > 1) {
    throw wrongUse(
      `Several checkpoints of ${session} begin with ${quote(ref)}: write more of the id.`,
      few(fitting.map(({ id }) => id)),
    )
  }
  const { didYouMean } = require('./near.js')
  const names = checkpoints.flatMap(({ id, info }) => (info?.label ? [info.label, id] : [id]))
  throw wrongUse(`Session ${session} has no checkpoint ${quote(ref)}.${didYouMean(ref, names)} ${listsThem(session)}`)
}

function latestBut(checkpoints, back, session) {
  if (back < checkpoints.length) return checkpoints[back]
  const { count } = require('./terminal/units.js')
  const has = checkpoints.length === 0 ? 'no checkpoints' : `only ${count(checkpoints.length, 'checkpoint')}`
  throw wrongUse(`Session ${session} has ${has}. ${listsThem(session)}`)
}

/** The checkpoint itself. */
async function read(store, { sessionId: session, checkpointId }) {
  const stored = await store.getCheckpoint(session, checkpointId)
  if (stored) return stored
  throw failure(`Checkpoint ${session}/${checkpointId} went away meanwhile. ${listsThem(session)}`)
}

/** A word that must name a checkpoint: `{ sessionId, checkpointId, info?, damaged? }`. */
async function checkpoint(store, word, { session: fallback } = {}) {
  const { session, ref } = split(word)
  if (ref === undefined && fallback === undefined) {
    throw wrongUse(
      `${quote(word)} names no checkpoint: write ${word}/latest, or an id or a label after the slash. ${listsThem(word)}`,
    )
  }
  const id = ref === undefined ? fallback : await sessionId(store, session)
  return found(store, id, ref ?? word)
}

async function found(store, session, ref) {
  const { id, ...rest } = pick(await checkpointsOf(store, session), ref, session)
  return { sessionId: session, checkpointId: id, ...rest }
}

function few(names) {
  const left = names.length - SHOWN
  return left > 0 ? [...names.slice(0, SHOWN), `and ${left} more`] : names
}

function listsThem(session) {
  return `waymark ls ${session} lists them.`
}

function quote(word) {
  return JSON.stringify(word)
}

module.exports = { checkpoint, checkpointsOf, found, pick, read, sessionId, split }
