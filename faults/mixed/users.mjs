// A simulated user that calls all methods at random, and logs each call and its result.
//
// The name of a session says what may happen to it, so that the judge knows what may be missing:
//
//   kept-…       nothing removes its checkpoints
//   limited-…    retention removes them; labelled and pinned ones stay
//   doomed-…     its checkpoints, and all of it, are deleted
//   expiring-…   belongs to one user, which lets it expire and activates it again
//   exchanged-…  exists in both locations, and is copied in both directions
//   fork-…, import-…   are created once

import { rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { plainError, succeeded, withSignal } from './calls.mjs'
import { CheckpointStore } from './locations.mjs'
import { randomFrom } from './random.mjs'
import { ENCODINGS, argumentsOf, contentError, snapshotOf, stateOf } from './state.mjs'

export const LIMITS = [4, 6, 8]
export const AGENT_LIMIT = 6
export const UNIQUE_LABELS = ['only a', 'only b']
export const ANSWER_LIMIT_S = 40

/** Microseconds on a clock that all processes of the machine share. */
export const clock = () => Number(process.hrtime.bigint() / 1000n)

/** The calls of users, by weight. */
export const WEIGHTS = {
  create: 30,
  label: 8,
  createAndLabel: 6,
  uniqueLabel: 4,
  pin: 4,
  unpin: 2,
  convert: 5,
  prune: 3,
  setRetention: 1,
  restore: 3,
  saveSession: 3,
  saveResult: 4,
  saveAgent: 5,
  fork: 0.7,
  exportAndImport: 0.7,
  copy: 2,
  remove: 3,
  expire: 3,
  takeUp: 4,
  read: 8,
  reopen: 1,
}

/**
 * Runs until `endAt` (of `clock()`). `stores` are on the first location, `others` on the second. A user may close a store that it
 * shares with other users.
 */
export class User {
  constructor({ name, seed, stores, others, log, directory, pause = 0.05, actions = Object.keys(WEIGHTS) }) {
    Object.assign(this, { name, stores, others, log, directory, pause, actions })
    this.random = randomFrom(seed)
    this.calls = 0
    this.tokens = 0
    this.active = new Map()
    /** The ids that this user knows, by session, newest last. */
    this.ids = new Map()
    this.tokensOf = new Map()
  }

  write(entry) {
    writeSync(this.log, `${JSON.stringify({ user: this.name, at: clock(), ...entry })}\n`)
  }

  addFinding(text) {
    this.write({ finding: text })
  }

  /** Logs the call, then its result. Resolves to the value, or to `undefined` if it failed. */
  async note(action, details, call) {
    this.calls += 1
    const number = this.calls
    this.write({ call: number, action, ...details })
    this.active.set(number, { action, ticks: 0 })
    try {
      const value = succeeded(await call())
      this.write({ done: number, ...answerOf(value) })
      return value ?? null
    } catch (error) {
      const { message, code, cause } = plainError(error)
      // Another lane closes the store and opens it again.
      if (code === 'WAYMARK_CLOSED') await sleep(this.random.between(1, 15))
      this.write({
        done: number,
        code: code ?? 'NONE',
        cause: error.causeCode ?? cause,
        message: message.slice(0, 300),
      })
      return undefined
    } finally {
      this.active.delete(number)
    }
  }

  /** Counts the seconds in which this process ran; a call that is active for too many of them hangs. */
  tick() {
    for (const [number, call] of this.active) {
      call.ticks += 1
      if (call.ticks === ANSWER_LIMIT_S)
        this.addFinding(`${call.action} (call ${number}) had no answer after ${call.ticks} s`)
    }
    return [...this.active.values()].every((call) => call.ticks < ANSWER_LIMIT_S)
  }

  async run(endAt, lanes = 2) {
    await Promise.all(Array.from({ length: lanes }, (_, lane) => this.lane(lane, endAt)))
  }

  async lane(lane, endAt) {
    // Only one lane uses the session that expires, so its calls are in order.
    const isOwn = (action) => this.actions.includes(action) && (action !== 'takeUp' || lane === 0)
    const weights = Object.fromEntries(Object.entries(WEIGHTS).filter(([action]) => isOwn(action)))
    while (clock() < endAt) {
      const action = this.random.weighted(weights)
      await this[action]()
      if (this.random.chance(this.pause)) await sleep(this.random.between(0, 20))
    }
  }

  get store() {
    return this.random.pick(this.stores)
  }

  token() {
    this.tokens += 1
    return `${this.name}-${this.tokens}`
  }

  session(...roles) {
    const role = this.random.pick(roles)
    return `${role}-${this.random.below(role === 'limited' || role === 'exchanged' ? 1 : 2)}`
  }

  /** An id of a session of this user or of another. */
  async someId(session) {
    if (!this.ids.has(session) || this.random.chance(0.2)) {
      const list = await this.store.listCheckpointInfo(session, { limit: 20 }).catch(() => undefined)
      this.ids.set(session, list?.checkpoints.map(({ id }) => id).toReversed() ?? [])
    }
    const known = this.ids.get(session)
    return known.length > 0 && this.random.chance(0.5) ? known.at(-1) : this.random.pick(known)
  }

  async create() {
    const session = this.session('kept', 'kept', 'limited', 'doomed', 'exchanged')
    const isOther = session.startsWith('exchanged') && this.random.chance(0.5)
    await this.createIn(session, isOther ? this.random.pick(this.others) : this.store, isOther)
  }

  async createIn(session, store, isOther = false) {
    const token = this.token()
    const wanted = { encoding: this.random.pick(ENCODINGS) }
    if (this.random.chance(0.15)) wanted.label = `label ${token}`
    else if (session.startsWith('kept') && this.random.chance(0.08)) {
      Object.assign(wanted, { label: this.random.pick(UNIQUE_LABELS), uniqueLabel: true })
    }
    if (this.random.chance(0.2)) wanted.ifParent = (await this.someId(session)) ?? null
    const details = { session, token, other: isOther, label: wanted.label, unique: wanted.uniqueLabel }
    const result = await this.note('create', details, () =>
      store.createCheckpoint(...argumentsOf(session, token, wanted)),
    )
    if (!result) return undefined
    if (!isOther) {
      this.ids.set(session, [...(this.ids.get(session) ?? []).slice(-30), result.checkpointId])
      this.tokensOf.set(result.checkpointId, token)
    }
    return result.checkpointId
  }

  async label() {
    const session = this.session('kept', 'limited', 'doomed')
    const id = await this.someId(session)
    if (!id) return
    const label = this.random.chance(0.15) ? null : `label ${this.token()}`
    await this.note('label', { session, id, label }, () => this.store.labelCheckpoint(session, id, label))
  }

  async createAndLabel() {
    const session = this.session('kept', 'limited')
    const id = await this.createIn(session, this.store)
    const label = `label ${this.token()}`
    if (id) await this.note('label', { session, id, label }, () => this.store.labelCheckpoint(session, id, label))
  }

  async uniqueLabel() {
    const session = this.session('kept')
    const id = await this.someId(session)
    if (!id) return
    const label = this.random.pick(UNIQUE_LABELS)
    const call = () => this.store.labelCheckpoint(session, id, label, { unique: true })
    const isGiven = await this.note('label', { session, id, label, unique: true }, call)
    // Yield to the other lanes.
    if (isGiven && this.random.chance(0.7)) {
      await this.note('label', { session, id, label: null }, () => this.store.labelCheckpoint(session, id, null))
    }
  }

  async pin() {
    const session = this.session('kept', 'limited', 'doomed')
    const id = await this.someId(session)
    if (id) await this.note('pin', { session, id, pinned: true }, () => this.store.pinCheckpoint(session, id))
  }

  async unpin() {
    const session = this.session('kept', 'limited')
    const id = await this.someId(session)
    if (id) await this.note('pin', { session, id, pinned: false }, () => this.store.unpinCheckpoint(session, id))
  }

  /** The options of a long call; some calls are aborted. */
  work(options = {}) {
    return this.random.chance(0.4) ? withSignal({ ...options, $abortMs: this.random.between(1, 40) }) : options
  }

  async convert() {
    const session = this.session('kept', 'limited', 'doomed', 'exchanged')
    const isOther = session.startsWith('exchanged') && this.random.chance(0.5)
    const store = isOther ? this.random.pick(this.others) : this.store
    const encoding = this.random.pick([...ENCODINGS, 'delta'])
    const options = this.work()
    await this.note('convert', { session, encoding, mayAbort: 'signal' in options }, () =>
      store.convert(session, encoding, options),
    )
  }

  async prune() {
    const session = this.random.chance(0.5) ? this.session('kept', 'limited', 'doomed') : undefined
    const options = this.work()
    await this.note('prune', { session, mayAbort: 'signal' in options }, async () => {
      const result = await (session ? this.store.prune(session, options) : this.store.prune(options))
      for (const failure of result.failed) this.write({ pruneFailure: failure })
      return undefined
    })
  }

  async setRetention() {
    const keepLast = this.random.pick(LIMITS)
    const session = 'limited-0'
    await this.note('setRetention', { session, keepLast }, () => this.store.setRetention(session, { keepLast }))
  }

  async restore() {
    const session = this.session('kept', 'doomed')
    const id = await this.someId(session)
    if (!id) return
    const call = () => this.store.restoreCheckpoint({ sessionId: session, checkpointId: id, validateChecksum: true })
    await this.note('restore', { session, id }, call)
  }

  async saveSession() {
    const session = this.session('kept', 'doomed')
    const token = this.token()
    await this.note('saveSession', { session, token }, () => this.store.saveSession(stateOf(session, token).session))
  }

  async saveResult() {
    const session = this.session('kept', 'doomed')
    const [task, token] = [`task-${this.random.below(3)}`, this.token()]
    await this.note('saveResult', { session, task, token }, () => this.store.saveTaskResult(session, task, { token }))
  }

  async saveAgent() {
    const session = this.session('kept')
    const [agent, token] = [`agent-${this.random.below(2)}`, this.token()]
    const encoding = this.random.pick(ENCODINGS)
    await this.note('saveAgent', { session, agent, token }, () =>
      this.store.agent(session, agent).save(snapshotOf(token), { encoding }),
    )
  }

  async fork() {
    const session = this.session('kept')
    const id = await this.someId(session)
    if (!id) return
    const newSessionId = `fork-${this.token()}`
    await this.note('fork', { session, id, into: newSessionId }, () =>
      this.store.forkSession({ sessionId: session, checkpointId: id, newSessionId }),
    )
  }

  async exportAndImport() {
    const session = this.session('kept', 'limited')
    const into = `import-${this.token()}`
    const file = join(this.directory, `${into}.zst`)
    const exporting = this.work()
    const isExported = await this.note('export', { session, mayAbort: 'signal' in exporting }, () =>
      this.store.exportSession(session, file, exporting),
    )
    if (!isExported) return
    const importing = this.work({ as: into })
    await this.note('import', { into, mayAbort: 'signal' in importing }, () =>
      this.store.importSession(file, importing),
    )
    rmSync(file, { force: true })
  }

  async copy() {
    const isOut = this.random.chance(0.6)
    const session = isOut ? this.session('kept', 'exchanged', 'exchanged') : 'exchanged-0'
    const other = this.random.pick(this.others)
    const [from, to] = isOut ? [this.store, other] : [other, this.store]
    const options = this.work({ sessionId: session })
    await this.note('copy', { session, isOut, mayAbort: 'signal' in options }, () => from.copyTo(to, options))
  }

  async remove() {
    const session = this.session('doomed')
    const kind = this.random.weighted({ checkpoint: 6, checkpoints: 2, session: 2 })
    if (kind === 'checkpoint') {
      const id = await this.someId(session)
      if (id) await this.note('delete', { session, id }, () => this.store.deleteCheckpoint(session, id))
      return
    }
    this.ids.delete(session)
    const method = kind === 'session' ? 'deleteSession' : 'deleteSessionCheckpoints'
    await this.note('delete', { session, all: kind === 'session' }, () => this.store[method](session))
  }

  async expire() {
    const action = this.random.chance(0.7) ? 'delete' : 'archive'
    await this.note('expire', { kind: action }, () => this.store.expireSessions(Date.now(), { action }))
  }

  /** Lets the session of this user expire, activates it, or both. */
  async takeUp() {
    const session = `expiring-${this.name}`
    const statuses = this.random.pick([['paused'], ['active'], ['paused', 'active'], ['paused', 'active']])
    for (const status of statuses) {
      const token = this.token()
      const document = { ...stateOf(session, token).session, status, expiresAt: 1 }
      const store = this.store
      await this.note('saveSession', { session, token, status }, () => store.saveSession(document))
    }
    for (let number = 0; number < 2; number += 1) await this.createIn(session, this.store)
  }

  /** A user reads its own writes, and lists show every id once. */
  async read() {
    const session = this.session('kept')
    const id = this.random.pick((this.ids.get(session) ?? []).filter((known) => this.tokensOf.has(known)))
    if (id) {
      const found = await this.note('get', { session, id }, () => this.store.getCheckpoint(session, id))
      if (found === null) this.addFinding(`${session}/${id} was acknowledged and is missing`)
      const wrong = found && contentError(found, this.tokensOf.get(id))
      if (wrong) this.addFinding(`${session}/${id}: ${wrong}`)
    }
    const page = await this.note('list', { session }, () => this.store.listCheckpointInfo(session, { limit: 30 }))
    const shown = page?.checkpoints.map((checkpoint) => checkpoint.id) ?? []
    if (new Set(shown).size < shown.length) this.addFinding(`listCheckpointInfo shows an id of ${session} twice`)
    for (const { id: damaged, error } of page?.damaged ?? [])
      this.addFinding(`${session}/${damaged} is damaged: ${error}`)
  }

  async reopen() {
    const store = this.store
    await this.note('close', {}, () => store.close())
    await this.note('initialize', {}, () => store.initialize())
  }
}

/** The part of a result that the judge needs. */
function answerOf(value) {
  if (!value || typeof value !== 'object') return {}
  const { checkpointId, checkpoints, warnings } = value
  return { id: checkpointId, count: typeof checkpoints === 'number' ? checkpoints : undefined, warnings }
}

/** Opens the stores of a user: one or two on the location, one on the other. */
export async function openStores(location, other, options, random) {
  const open = async (where) => {
    const store = new CheckpointStore(where, options)
    await store.initialize()
    return store
  }
  const stores = [await open(location)]
  if (random.chance(0.5)) stores.push(await open(location))
  return { stores, others: [await open(other)] }
}
