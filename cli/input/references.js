// What people call sessions and checkpoints: ids, beginnings of ids, labels, `latest`, `latest~2`.

'use strict'

const { commandLine, quoted } = require('./command-line.js')
const { failure, wrongUse } = require('./complaint.js')

const LATEST = /^latest(?:~(\d{1,15}))?$/
const SHOWN = 5
/** Ids have their time in them. */
const OWN_ID = /^cp-([0-9a-z]{8})-/

/** `session/ref` in its two parts; `ref` is `undefined` if there is none. A label may have slashes of its own. */
function split(word) {
  const at = word.indexOf('/')
  return at < 0 ? { session: word, ref: undefined } : { session: word.slice(0, at), ref: word.slice(at + 1) }
}

/** The id of the session that a word means: its id, or a unique beginning of it. */
async function sessionId(store, word) {
  if (await isSession(store, word)) return word
  const ids = (await store.sessionsInfo()).map(({ id }) => id)
  const fitting = word === '' ? [] : ids.filter((id) => id.startsWith(word))
  if (fitting.length === 1) return fitting[0]
  if (fitting.length > 1) {
    throw wrongUse(`Several sessions begin with ${quote(word)}: write more of the id.`, few(fitting))
  }
  throw wrongUse(unknownSession(store, word, ids))
}

/** What is known of all sessions, or of the one of that id if it is given. */
async function infosOf(store, id) {
  if (id === undefined) return store.sessionsInfo()
  const info = await store.sessionInfo(id)
  return info ? [info] : []
}

async function isSession(store, id) {
  try {
    return (await store.sessionInfo(id)) !== null
  } catch (error) {
    if (error.code === 'WAYMARK_INVALID_ID') return false
    throw error
  }
}

function unknownSession(store, word, ids) {
  const { isLocation } = require('./location.js')
  const { didYouMean } = require('./near.js')
  const { existsSync } = require('node:fs')
  const { session, ref } = split(word)
  if (ref !== undefined && ids.includes(session))
    return `${quote(word)} is a checkpoint, and a session is wanted here: write ${quoted(session)}.`
  if (isLocation(word))
    return `There is no session of that name in ${store.getBaseDir()}. The session comes first, the location last.`
  const sentence = `There is no session ${quote(word)} in ${store.getBaseDir()}.`
  if (word !== '' && existsSync(word)) return `${sentence} If you mean the place, write ${quoted(`./${word}`)}.`
  return `${sentence}${didYouMean(word, ids)} ${commandLine(store, 'ls')} lists the sessions.`
}

/** All checkpoints of a session, newest first: `{ id, info }`, or `{ id, damaged }` if nothing can be found out about one. */
async function checkpointsOf(store, session) {
  const { checkpoints, damaged } = await store.listCheckpointInfo(session)
  const rest = damaged.map((entry) => ({ id: entry.id, damaged: entry })).toSorted((a, b) => timeOf(b) - timeOf(a))
  const all = []
  // The store's order stays as it is: it is not that of the ids, since somebody may have put files there.
  for (const info of checkpoints) {
    const next = { id: info.id, info }
    while (rest.length > 0 && isNewer(rest[0], next)) all.push(rest.shift())
    all.push(next)
  }
  return [...all, ...rest]
}

function isNewer(a, b) {
  const difference = timeOf(a) - timeOf(b)
  return difference === 0 ? a.id > b.id : difference > 0
}

/** When a checkpoint was made, for its place among others; what nobody knows the time of comes last. */
function timeOf({ id, info, damaged }) {
  const [, time] = OWN_ID.exec(id) ?? []
  return (info ?? damaged)?.timestamp ?? (time === undefined ? 0 : Number.parseInt(time, 36))
}

/** Whether a word counts back from the newest, whatever labels there are. */
function isLatest(ref) {
  return LATEST.test(ref)
}

/** The checkpoint that `ref` means among those of a session, as `checkpointsOf()` gives them. */
function pick(checkpoints, ref, session, store) {
  const exact = checkpoints.find(({ id }) => id === ref)
  if (exact) return exact
  const latest = LATEST.exec(ref)
  if (latest) return latestBut(checkpoints, Number(latest[1] ?? 0), session, store)
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
  throw wrongUse(
    `Session ${session} has no checkpoint ${quote(ref)}.${didYouMean(ref, names)} ${listsThem(store, session)}`,
  )
}

function latestBut(checkpoints, back, session, store) {
  if (back < checkpoints.length) return checkpoints[back]
  const { count } = require('./terminal/units.js')
  const has = checkpoints.length === 0 ? 'no checkpoints' : `only ${count(checkpoints.length, 'checkpoint')}`
  throw wrongUse(`Session ${session} has ${has}. ${listsThem(store, session)}`)
}

/** The checkpoint itself. */
async function read(store, { sessionId: session, checkpointId }) {
  const stored = await store.getCheckpoint(session, checkpointId)
  if (stored) return stored
  throw failure(`Checkpoint ${session}/${checkpointId} went away meanwhile. ${listsThem(store, session)}`)
}

/** A word that must name a checkpoint: `{ sessionId, checkpointId, info?, damaged? }`. */
async function checkpoint(store, word, { session: fallback } = {}) {
  const { session, ref } = split(word)
  if (ref === undefined && fallback === undefined) {
    throw wrongUse(
      `${quote(word)} names no checkpoint: write ${quoted(`${word}/latest`)}, or an id or a label after the slash. ${listsThem(store, word)}`,
    )
  }
  const id = ref === undefined ? fallback : await sessionId(store, session)
  return found(store, id, ref ?? word)
}

async function found(store, session, ref) {
  const { id, ...rest } = pick(await checkpointsOf(store, session), ref, session, store)
  return { sessionId: session, checkpointId: id, ...rest }
}

function few(names) {
  const left = names.length - SHOWN
  return left > 0 ? [...names.slice(0, SHOWN), `and ${left} more`] : names
}

function listsThem(store, session) {
  return `${commandLine(store, 'ls', [session])} lists them.`
}

function quote(word) {
  return JSON.stringify(word)
}

module.exports = { checkpoint, checkpointsOf, found, infosOf, isLatest, pick, read, sessionId, split, timeOf }
