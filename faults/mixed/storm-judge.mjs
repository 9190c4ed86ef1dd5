// Computes what a storm must have stored from the results of its calls.
//
// A call has a beginning and an end on one clock. One without an answer, or with an unknown outcome, may have taken effect at
// any time after its beginning. A write is overtaken by every acknowledged write that began after its end.

import { readdirSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'

import { told } from './calls.mjs'
import { listErrors, listed, listedByAll } from './judge.mjs'
import { CheckpointStore } from './locations.mjs'
import { isTimeout } from './phases.mjs'
import { argumentsOf, contentError, snapshotOf, stateOf } from './state.mjs'
import { AGENT_LIMIT, LIMITS, UNIQUE_LABELS } from './users.mjs'

/** Labels of removed checkpoints are not copied, and have fewer bytes than this; a base has thousands. */
const KEY_BYTES = 1000

/** Codes that mean that nothing was changed. */
const REFUSALS = new Set([
  'WAYMARK_CONFLICT',
  'WAYMARK_EXISTS',
  'WAYMARK_NOT_FOUND',
  'WAYMARK_CLOSED',
  'WAYMARK_NOT_INITIALIZED',
])

/** Atomic actions: without a lock in time, nothing was changed. */
const SINGLE_STEPS = new Set(['create', 'label', 'pin', 'restore', 'saveSession', 'saveResult', 'saveAgent'])

/** The codes that each action may end with, besides those of a closed store and of locks that a stopped process holds. */
const EXPECTED = {
  create: ['WAYMARK_CONFLICT', 'WAYMARK_EXISTS'],
  label: ['WAYMARK_NOT_FOUND', 'WAYMARK_EXISTS'],
  pin: ['WAYMARK_NOT_FOUND'],
  convert: ['WAYMARK_NOT_FOUND'],
  prune: ['WAYMARK_NOT_FOUND'],
  restore: ['WAYMARK_NOT_FOUND'],
  fork: ['WAYMARK_NOT_FOUND'],
  export: ['WAYMARK_NOT_FOUND'],
  copy: ['WAYMARK_NOT_FOUND'],
}

/** Calls with their start and end. */
function readCalls(entries) {
  const calls = new Map()
  const findings = []
  for (const entry of entries) {
    const { user, at } = entry
    if (entry.finding) findings.push(`${user}: ${entry.finding}`)
    else if (entry.call)
      calls.set(`${user} ${entry.call}`, { ...entry, start: at, end: Infinity, isAcknowledged: false })
    else if (entry.done) {
      const call = calls.get(`${user} ${entry.done}`)
      const { code, cause, message, warnings } = entry
      Object.assign(call, { end: at, isAcknowledged: !code, code, cause, message, warnings })
      if (entry.id) call.id = entry.id
      call.count = entry.count
    } else if (entry.pruneFailure?.code === 'WAYMARK_BUSY') {
      // Another process was stopped while it held the lock: the next prune removes it.
    } else if (entry.pruneFailure) findings.push(`${user}: prune could not ${JSON.stringify(entry.pruneFailure)}`)
  }
  for (const call of calls.values()) {
    call.isRefused = REFUSALS.has(call.code) || (call.code === 'WAYMARK_BUSY' && SINGLE_STEPS.has(call.action))
    // Any other failure may have taken effect, or may still do so.
    if (!call.isAcknowledged && !call.isRefused) call.end = Infinity
  }
  return { calls: [...calls.values()], findings }
}

/** Failures that no caller should see. */
function unexpected(calls, stops) {
  const found = []
  for (const { user, action, session, code, cause, message, mayAbort, warnings } of calls) {
    if (warnings?.length > 0 && !/gone|not found/i.test(warnings[0]))
      found.push(`${user}: ${action} warns: ${warnings[0]}`)
    if (!code || ['WAYMARK_CLOSED', 'WAYMARK_NOT_INITIALIZED'].includes(code)) continue
    if (EXPECTED[action]?.includes(code) || (mayAbort && code === 'ABORT_ERR')) continue
    if (stops > 0 && isTimeout({ code, cause })) continue
    found.push(`${user}: ${action} of ${session} failed with ${code}${cause ? ` (${cause})` : ''}: ${message}`)
  }
  return found
}

/** The writes to one register whose value may be the final one. */
function possible(writes) {
  const last = Math.max(...writes.filter((write) => write.isAcknowledged).map((write) => write.start), -1)
  return writes.filter((write) => !write.isRefused && write.end >= last)
}

const byKey = (list, keyOf) => {
  const groups = new Map()
  for (const item of list) {
    const key = keyOf(item)
    groups.set(key, [...(groups.get(key) ?? []), item])
  }
  return groups
}

class StormJudge {
  constructor({ storage, other, store, otherStore, calls }) {
    Object.assign(this, { storage, other, store, otherStore, calls, found: [] })
    this.tokens = new Map(this.of('create').map((call) => [call.token, call]))
    this.checked = 0
  }

  of(...actions) {
    return this.calls.filter((call) => actions.includes(call.action))
  }

  /** The stored checkpoints of a session, by id; reports those that are damaged or hold another state. */
  async contents(store, session, label = session) {
    const there = new Map()
    this.found.push(...(await listErrors(store, session, this.byAll.get(store))).map((text) => `${label}: ${text}`))
    const { shown } = await listed(store, session)
    for (const info of shown) {
      // An unreadable checkpoint is not missing.
      there.set(info.id, info)
      try {
        const checkpoint = await store.getCheckpoint(session, info.id)
        if (!checkpoint) {
          this.found.push(`${label}/${info.id} is listed, and cannot be had`)
          continue
        }
        const token = checkpoint.session?.metadata?.token
        const call = this.tokens.get(token)
        const wrong = call ? contentError({ ...checkpoint, sessionId: call.session }, token) : 'it was never stored'
        if (wrong) this.found.push(`${label}/${info.id}: ${wrong}`)
        if (call?.isRefused) this.found.push(`${label}/${info.id}: its create was refused with ${call.code}`)
        if (call?.session === session && call.id && call.id !== info.id)
          this.found.push(`${label}/${info.id}: it was acknowledged as ${call.id}`)
        there.set(info.id, { ...info, token })
      } catch (error) {
        this.found.push(`${label}/${info.id} cannot be read: ${told(error)}`)
      }
    }
    return there
  }

  created(session, isOther = false) {
    return this.of('create').filter((call) => call.session === session && call.other === isOther)
  }

  acknowledged(session, isOther) {
    return this.created(session, isOther).filter((call) => call.isAcknowledged)
  }

  missing(session, there, isOther) {
    const made = this.acknowledged(session, isOther)
    this.checked += made.length
    return made.filter(({ id }) => !there.has(id))
  }

  /** Labels and pins of the stored checkpoints. */
  judgeMarks(session, there) {
    const marks = this.of('label', 'pin').filter((call) => call.session === session)
    const marksOf = byKey(marks, ({ id }) => id)
    for (const [id, { label, pinned, token }] of there) {
      // The label of an unreadable checkpoint is unknown.
      if (token === undefined) continue
      const { label: first } = this.tokens.get(token) ?? {}
      const made = { start: 0, end: 0, isAcknowledged: true, label: first, pinned: false }
      const own = marksOf.get(id) ?? []
      const labels = possible([made, ...own.filter(({ action }) => action === 'label')]).map(
        (write) => write.label ?? undefined,
      )
      if (!labels.includes(label))
        this.found.push(`${session}/${id} has the label ${label}, and must have ${labels.join(' or ')}`)
      const pins = possible([made, ...own.filter(({ action }) => action === 'pin')]).map((write) => write.pinned)
      if (!pins.includes(pinned ?? false))
        this.found.push(`${session}/${id} is ${pinned ? '' : 'not '}pinned, and must be otherwise`)
    }
    for (const label of UNIQUE_LABELS) {
      const holders = [...there.values()].filter((info) => info.label === label)
      if (holders.length > 1)
        this.found.push(`${session}: ${holders.length} checkpoints have the unique label ${label}`)
    }
  }

  async kept(session) {
    const there = await this.contents(this.store, session)
    for (const { id } of this.missing(session, there))
      this.found.push(`${session}/${id} was acknowledged and is missing`)
    this.judgeMarks(session, there)
    await this.judgeDocuments(session)
    for (const agent of ['agent-0', 'agent-1']) await this.judgeAgent(session, agent)
  }

  /** The session's document and results are those of a write that none overtook. */
  async judgeDocuments(session) {
    const tokenOf = new Map(
      this.of('create')
        .filter(({ id }) => id)
        .map(({ id, token }) => [id, token]),
    )
    const writes = this.of('saveSession', 'restore').filter((call) => call.session === session)
    for (const write of writes) write.token ??= tokenOf.get(write.id)
    const document = await this.store.loadSession(session)
    this.judgeRegister(`${session}: the session`, writes, document?.metadata?.token)
    for (const [task, saves] of byKey(
      this.of('saveResult').filter((call) => call.session === session),
      (call) => call.task,
    )) {
      const result = await this.store.loadTaskResult(session, task)
      this.judgeRegister(`${session}: the result ${task}`, saves, result?.token)
    }
  }

  judgeRegister(what, writes, value) {
    this.checked += 1
    const allowed = possible(writes)
    // A restored checkpoint that was never acknowledged has an unknown token.
    if (allowed.some(({ token }) => token === undefined)) return
    if (value === undefined && !writes.some((write) => write.isAcknowledged)) return
    if (!allowed.some(({ token }) => token === value)) {
      this.found.push(
        `${what} is that of ${value}, and must be that of ${allowed.map(({ token }) => token).join(' or ')}`,
      )
    }
  }

  async judgeAgent(session, agent) {
    const saves = this.of('saveAgent').filter((call) => call.session === session && call.agent === agent)
    const checkpoints = this.store.agent(session, agent)
    const { checkpoints: shown, damaged } = await checkpoints.list()
    for (const { id, error } of damaged) this.found.push(`${session}/${agent}/${id} is damaged: ${error}`)
    const there = new Map(shown.map((checkpoint) => [checkpoint.id, checkpoint]))
    if (there.size < shown.length) this.found.push(`${session}/${agent}: the list shows an id twice`)
    for (const { id, token, isAcknowledged } of saves) {
      if (!isAcknowledged) continue
      this.checked += 1
      const newer = saves.filter((save) => (save.id ?? '~') > id && !save.isRefused).length
      if (!there.has(id) && newer < AGENT_LIMIT)
        this.found.push(`${session}/${agent}/${id} was acknowledged and is gone; ${newer} are newer`)
      const expected = JSON.stringify(snapshotOf(token).messages)
      if (there.has(id) && JSON.stringify(there.get(id).messages) !== expected) {
        this.found.push(`${session}/${agent}/${id} holds something else`)
      }
    }
    if (saves.length === 0) return
    await checkpoints.save(snapshotOf('judge'))
    const after = await checkpoints.info()
    if (after.total > AGENT_LIMIT) this.found.push(`${session}/${agent} keeps ${after.total} of ${AGENT_LIMIT}`)
  }

  async limited(session) {
    const there = await this.contents(this.store, session)
    const made = this.created(session).filter((call) => !call.isRefused)
    for (const { id, label, end } of this.missing(session, there)) {
      const marks = this.of('label', 'pin').filter(
        (call) => call.session === session && call.id === id && !call.isRefused,
      )
      const isMarked = ({ action, label: given, pinned }) => (action === 'label' ? given !== null : pinned)
      const released = (action) => marks.some((mark) => mark.action === action && !isMarked(mark))
      const held = (action) => marks.some((mark) => mark.action === action && mark.isAcknowledged && isMarked(mark))
      if ((label || held('label')) && !released('label'))
        this.found.push(`${session}/${id} has a label, and is missing`)
      else if (held('pin') && !released('pin')) this.found.push(`${session}/${id} is pinned, and is missing`)
      const newer = made.filter((call) => (call.id ?? '~') > id).length
      const limit = Math.min(...LIMITS)
      if (newer < limit)
        this.found.push(`${session}/${id} was acknowledged and is gone; only ${newer} are newer (${end})`)
    }
    this.judgeMarks(session, there)
    await this.judgeLimit(session)
  }

  /** After one more checkpoint the limit holds, and the kept checkpoints exist. */
  async judgeLimit(session) {
    const [limit] = LIMITS
    await this.store.setRetention(session, { keepLast: limit })
    const before = (await listed(this.store, session)).shown.filter(({ pinned }) => !pinned).map(({ id }) => id)
    const made = await this.store.createCheckpoint(...argumentsOf(session, 'judge'))
    const { shown } = await listed(this.store, session)
    const unpinned = shown.filter(({ pinned }) => !pinned)
    const excess = unpinned.slice(limit).filter(({ label }) => !label)
    if (excess.length > 0) this.found.push(`${session}: ${excess.length} checkpoints are kept beyond keepLast ${limit}`)
    const newest = [made.checkpointId, ...before.slice(0, limit - 1)]
    const ids = new Set(shown.map(({ id }) => id))
    for (const id of newest)
      if (!ids.has(id)) this.found.push(`${session}/${id} is one of the last ${limit}, and is missing`)
  }

  async doomed(session) {
    const there = await this.contents(this.store, session)
    const deletions = this.of('delete').filter((call) => call.session === session && !call.isRefused)
    for (const { id, start } of this.missing(session, there)) {
      const mayBeDeleted = deletions.some((call) => call.end >= start && (call.id === undefined || call.id === id))
      if (!mayBeDeleted) this.found.push(`${session}/${id} was acknowledged after every deletion and is missing`)
    }
  }

  /** A session may be deleted from the start of the call that pauses it to the end of the call that activates it. */
  async expiring(session) {
    const there = await this.contents(this.store, session)
    const saves = this.of('saveSession').filter((call) => call.session === session)
    const windows = []
    for (const { status, start, end, isAcknowledged, isRefused } of saves) {
      const open = windows.at(-1)
      if (status === 'paused' && !isRefused && (!open || open.end < Infinity)) windows.push({ start, end: Infinity })
      if (status === 'active' && isAcknowledged && open?.end === Infinity) open.end = end
    }
    const expiries = this.of('expire').filter((call) => call.kind === 'delete' && !call.isRefused)
    for (const { id, start } of this.missing(session, there)) {
      const mayBeDeleted = windows.some((window) =>
        expiries.some(
          (expiry) =>
            expiry.start <= window.end && expiry.end >= window.start && start <= Math.min(expiry.end, window.end),
        ),
      )
      if (!mayBeDeleted) this.found.push(`${session}/${id} was made while the session was active, and is missing`)
    }
    const last = saves.findLast((call) => !call.isRefused)
    if (!last?.isAcknowledged || last.status !== 'active') return
    const document = await this.store.loadSession(session)
    if (document?.metadata.token !== last.token || document.status !== 'active') {
      this.found.push(`${session} was saved as active, and is ${document?.status ?? 'gone'}`)
    }
  }

  async exchanged(session) {
    for (const [store, isOther] of [
      [this.store, false],
      [this.otherStore, true],
    ]) {
      const label = `${session} (${isOther ? 'second' : 'first'} location)`
      const there = await this.contents(store, session, label)
      for (const { id } of this.missing(session, there, isOther))
        this.found.push(`${label}: ${id} was acknowledged and is missing`)
    }
  }

  /** Sessions that were created in one step. */
  async made() {
    for (const { action, into, id, count, start, isAcknowledged, isRefused } of this.of('fork', 'import')) {
      const there = await this.contents(this.store, into)
      if (isRefused && there.size > 0) this.found.push(`${into} was refused, and is there`)
      if (!isAcknowledged) continue
      this.checked += 1
      if (action === 'fork' && !there.has(id)) this.found.push(`${into} was acknowledged, and has no ${id}`)
      if (action === 'import') {
        const info = await this.store.sessionInfo(into)
        const total = info ? info.checkpointCount + info.agentCheckpointCount : 0
        // Retention may have removed checkpoints that the export contains.
        const isPruned = this.of('prune').some((call) => !call.session && !call.isRefused && call.end >= start)
        if (isPruned ? total > count : total !== count)
          this.found.push(`${into} was acknowledged with ${count} checkpoints, and has ${total}`)
      }
    }
  }

  /** Interrupted writes leave nothing: no temporary file, no base without a delta. */
  async orphans() {
    const sessions = await this.store.listSessions()
    const all = new Set([...sessions, ...this.of('create').map(({ session }) => session)])
    const { failed } = await this.store.prune()
    for (const failure of failed) this.found.push(`prune failed: ${JSON.stringify(failure)}`)
    if (this.storage.backend === 'files') {
      const isLeft = (path) => /\.tmp$|\.deleted-/.test(path) && !this.isNewAndEmpty(path)
      const present = this.filesIn('').map((path) => path.split(sep)[0])
      for (const session of new Set([...all, ...present.filter((name) => !name.startsWith('.'))])) {
        await this.sweep(session)
      }
      for (const path of this.filesIn('').filter(isLeft)) this.found.push(`left behind: ${path}`)
    }
    for (const session of all) await this.keysWithout(session)
  }

  /** Writes into every directory of a session: a store removes the temporary files of dead processes with its first write. */
  async sweep(session) {
    const { store } = this
    await store.createCheckpoint(...argumentsOf(session, 'judge'))
    await store.saveSession(stateOf(session, 'judge').session)
    await store.saveTaskResult(session, 'judge', {})
    for (const agent of await store.listAgents(session)) await store.agent(session, agent).save(snapshotOf('judge'))
  }

  /** An empty staging directory may belong to an active writer, so it is removed only when it is older than a minute. */
  isNewAndEmpty(path) {
    const full = join(this.storage.location, path)
    const stat = statSync(full)
    return stat.isDirectory() && Date.now() - stat.mtimeMs < 90_000 && readdirSync(full).length === 0
  }

  filesIn(session) {
    if (this.storage.backend !== 'files') return []
    return readdirSync(join(this.storage.location, session), { recursive: true })
  }

  /** After its checkpoints are deleted, a session has the size of its documents. */
  async keysWithout(session) {
    const { store } = this
    await store.deleteSessionCheckpoints(session)
    for (const agent of await store.listAgents(session)) await store.agent(session, agent).clear()
    const { totalSizeBytes } = await store.getSessionStorageStats(session)
    const copy = new CheckpointStore('memory:')
    await copy.initialize()
    const isCopied = await store.copyTo(copy, { sessionId: session }).catch(() => undefined)
    const documents = isCopied ? (await copy.getSessionStorageStats(session)).totalSizeBytes : 0
    await copy.close()
    if (Math.abs(totalSizeBytes - documents) > KEY_BYTES) {
      this.found.push(
        `${session}: ${totalSizeBytes - documents} bytes are left after all checkpoints were deleted ${this.filesIn(session)}`,
      )
    }
  }
}

/** Judges the content of both locations. The stores of the users are closed or dead. */
export async function judgeStorm({ storage, other, options, entries, stops }) {
  const { calls, findings } = readCalls(entries)
  const open = async (where) => {
    if (!where.isShared) return where.open(options)
    const store = new CheckpointStore(where.location, options)
    await store.initialize()
    return store
  }
  const [store, otherStore] = [await open(storage), await open(other)]
  const judge = new StormJudge({ storage, other, store, otherStore, calls })
  judge.found.push(...findings, ...unexpected(calls, stops))
  judge.byAll = new Map([
    [store, await listedByAll(store)],
    [otherStore, await listedByAll(otherStore)],
  ])
  const sessions = new Set(calls.filter(({ action }) => action === 'create').map(({ session }) => session))
  for (const session of [...sessions].toSorted()) await judge[session.split('-')[0]](session)
  await judge.made()
  await judge.orphans()
  if (storage.isShared) await Promise.all([store.close(), otherStore.close()])
  if (process.env.WAYMARK_MIXED_CODES) {
    const codes = byKey(
      calls,
      ({ action, code, isAcknowledged }) => `${action} ${code ?? (isAcknowledged ? 'ok' : 'cut off')}`,
    )
    for (const [key, list] of [...codes].toSorted()) console.error(`${key}: ${list.length}`)
  }
  const acknowledged = calls.filter((call) => call.isAcknowledged).length
  return { tried: { calls: calls.length, acknowledged, judged: judge.checked }, found: judge.found }
}
