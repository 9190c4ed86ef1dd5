// References to sessions and checkpoints: ids, unique prefixes of ids, labels, `latest`, `latest~2`.

'use strict'

const { failure, usageError } = require('../cli-error.js')
const { commandLine, shellQuote } = require('./command-line.js')

const LATEST = /^latest(?:~(\d{1,15}))?$/
const MAX_CANDIDATES = 5
/** Ids contain their time. */
const GENERATED_ID = /^cp-([0-9a-z]{8})-/

/** Splits `session/ref`; `ref` is `undefined` without a slash. A label may contain slashes. */
function split(reference) {
  const at = reference.indexOf('/')
  return at < 0
    ? { session: reference, ref: undefined }
    : { session: reference.slice(0, at), ref: reference.slice(at + 1) }
}

/** The id of the session that an id or a unique prefix of one refers to. */
async function sessionId(store, reference) {
  if (await isSession(store, reference)) return reference
  const ids = (await store.sessionsInfo()).map(({ id }) => id)
  const matches = reference === '' ? [] : ids.filter((id) => id.startsWith(reference))
  if (matches.length === 1) return matches[0]
  if (matches.length > 1) throw ambiguous('Several sessions', reference, matches)
  throw usageError(unknownSession(store, reference, ids))
}

/** The same for an argument that may be absent. */
async function optionalSessionId(store, reference) {
  return reference === undefined ? undefined : sessionId(store, reference)
}

/** The info of all sessions, or of the one with this id. */
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

function unknownSession(store, reference, ids) {
  const { isLocation, pathHint } = require('./location.js')
  const { didYouMean } = require('./suggest.js')
  const { existsSync } = require('node:fs')
  const { session, ref } = split(reference)
  if (ref !== undefined && ids.includes(session))
    return `${quote(reference)} is a checkpoint, but a session is expected here: write ${shellQuote(session)}.`
  if (isLocation(reference))
    return `There is no session of that name in ${store.getBaseDir()}. The session comes first, the location last.`
  const sentence = `There is no session ${quote(reference)} in ${store.getBaseDir()}.`
  if (reference !== '' && existsSync(reference)) return `${sentence} ${pathHint(reference)}`
  return `${sentence}${didYouMean(reference, ids)} ${commandLine(store, 'ls')} lists the sessions.`
}

/** All checkpoints of a session, newest first: `{ id, info }`, or `{ id, damaged }` for one whose summary cannot be read. */
async function checkpointsOf(store, session) {
  const { checkpoints, damaged } = await store.listCheckpointInfo(session)
  const rest = damaged.map((entry) => ({ id: entry.id, damaged: entry })).toSorted((a, b) => timeOf(b) - timeOf(a))
  const all = []
  // Merge, and keep the order of the store: it differs from that of the ids if files were copied in by hand.
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

/** The creation time of a checkpoint, for sorting; 0 if it is unknown. */
function timeOf({ id, info, damaged }) {
  const [, time] = GENERATED_ID.exec(id) ?? []
  return (info ?? damaged)?.timestamp ?? (time === undefined ? 0 : Number.parseInt(time, 36))
}

/** Whether a reference counts back from the newest checkpoint. It does so even if a label has that name. */
function isLatest(ref) {
  return LATEST.test(ref)
}

/** The checkpoint that `ref` refers to among those that `checkpointsOf()` returned. */
function pick(checkpoints, ref, session, store) {
  const exact = checkpoints.find(({ id }) => id === ref)
  if (exact) return exact
  const latest = LATEST.exec(ref)
  if (latest) return nthNewest(checkpoints, Number(latest[1] ?? 0), session, store)
  // As in the store: of several with one label, the newest.
  const labelled = checkpoints.find(({ info }) => info?.label === ref)
  if (labelled) return labelled
  const matches = ref === '' ? [] : checkpoints.filter(({ id }) => id.startsWith(ref))
  if (matches.length === 1) return matches[0]
  if (matches.length > 1)
    throw ambiguous(
      `Several checkpoints of ${session}`,
      ref,
      matches.map(({ id }) => id),
    )
  const { didYouMean } = require('./suggest.js')
  const names = checkpoints.flatMap(({ id, info }) => (info?.label ? [info.label, id] : [id]))
  throw usageError(
    `Session ${session} has no checkpoint ${quote(ref)}.${didYouMean(ref, names)} ${listHint(store, session)}`,
  )
}

function nthNewest(checkpoints, back, session, store) {
  if (back < checkpoints.length) return checkpoints[back]
  const { count } = require('../terminal/units.js')
  const has = checkpoints.length === 0 ? 'no checkpoints' : `only ${count(checkpoints.length, 'checkpoint')}`
  throw usageError(`Session ${session} has ${has}. ${listHint(store, session)}`)
}

/** The contents of a checkpoint. */
async function readCheckpoint(store, { sessionId: session, checkpointId }) {
  const stored = await store.getCheckpoint(session, checkpointId)
  if (stored) return stored
  throw failure(`Checkpoint ${session}/${checkpointId} was deleted concurrently. ${listHint(store, session)}`)
}

/** Resolves a reference to `{ sessionId, checkpointId, info?, damaged? }`; `session` is the default if it names none. */
async function checkpoint(store, reference, { session: fallback } = {}) {
  const { session, ref } = split(reference)
  if (ref === undefined && fallback === undefined) {
    throw usageError(
      `${quote(reference)} names no checkpoint: write ${shellQuote(`${reference}/latest`)}, or an id or a label after the slash. ${listHint(store, reference)}`,
    )
  }
  const id = ref === undefined ? fallback : await sessionId(store, session)
  return checkpointOf(store, id, ref ?? reference)
}

/** Resolves a reference within a session. */
async function checkpointOf(store, session, ref) {
  const { id, ...rest } = pick(await checkpointsOf(store, session), ref, session, store)
  return { sessionId: session, checkpointId: id, ...rest }
}

function ambiguous(what, prefix, matches) {
  const left = matches.length - MAX_CANDIDATES
  const candidates = left > 0 ? [...matches.slice(0, MAX_CANDIDATES), `and ${left} more`] : matches
  return usageError(`${what} begin with ${quote(prefix)}: write more of the id.`, candidates)
}

function listHint(store, session) {
  return `${commandLine(store, 'ls', [session])} lists them.`
}

function quote(word) {
  return JSON.stringify(word)
}

module.exports = {
  checkpoint,
  checkpointOf,
  checkpointsOf,
  infosOf,
  isLatest,
  optionalSessionId,
  pick,
  readCheckpoint,
  sessionId,
  split,
  timeOf,
}
