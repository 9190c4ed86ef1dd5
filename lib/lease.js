// One owner for each session: leases that are renewed by themselves until they are given back.
//
// That nobody writes under a lease that is over is decided where the session is stored. This only keeps a lease in force, and
// tells its owner as soon as it is known to be lost.

'use strict'

const {
  CheckpointStore,
  acquireLease,
  acquireNextLease,
  onLeaseLost,
  releaseLease,
  renewLease,
  storeNumber,
} = require('../binding.js')
const { errorOf, isObject, wrong } = require('./errors.js')
const { abortError, checkedSignal } = require('./signals.js')
const { startTimer } = require('./timer.js')

const DEFAULT_TTL_MS = 30_000

/** Two renewals may fail before anybody else can take the session. */
const RENEWALS_IN_TTL = 3

/** How long somebody who waits for a session does not look again. */
const LOOK_AGAIN_MS = 100

/** The leases that are neither lost nor released. Test runners evaluate this file again for a class that is already loaded. */
const LEASES = Symbol.for('waymark.leases')
if (!Object.hasOwn(CheckpointStore, LEASES)) Object.defineProperty(CheckpointStore, LEASES, { value: new Map() })
const leases = CheckpointStore[LEASES]

const keyOf = (store, sessionId, number) => `${store}/${number}/${sessionId}`

// A write was refused: its caller is told next, and whoever works under the lease must stop.
onLeaseLost((store, sessionId, number, error) => leases.get(keyOf(store, sessionId, number))?.lose(error))

class SessionLease {
  #store
  #sessionId
  #ttlMs
  #facts
  #timer
  #renewal
  #isReleased = false
  #release
  #lost
  #abort = new AbortController()
  #key

  constructor(store, sessionId, ttlMs, facts) {
    this.#store = store
    this.#sessionId = sessionId
    this.#ttlMs = ttlMs
    this.#facts = facts
    this.#key = keyOf(storeNumber(store), sessionId, facts.number)
    leases.set(this.#key, { lose: (error) => this.#lose(error) })
    // What is not lost is tried again at the next tick.
    this.#timer = startTimer(() => this.#renew().catch(() => {}), Math.max(1, Math.floor(ttlMs / RENEWALS_IN_TTL)))
  }

  get sessionId() {
    return this.#sessionId
  }

  get owner() {
    return this.#facts.owner
  }

  get number() {
    return this.#facts.number
  }

  get expiresAt() {
    return this.#facts.expiresAt
  }

  get isLost() {
    return this.#lost !== undefined
  }

  get isReleased() {
    return this.#isReleased
  }

  get signal() {
    return this.#abort.signal
  }

  async renew() {
    if (this.isReleased) {
      throw errorOf('WAYMARK_LEASE_LOST', `The lease of session ${this.#sessionId} was released. Acquire it again`)
    }
    await this.#renew()
  }

  release() {
    this.#isReleased = true
    this.#release ??= this.#releaseNow().catch((error) => {
      // Who asks again tries again.
      this.#release = undefined
      throw error
    })
    return this.#release
  }

  async [Symbol.asyncDispose]() {
    await this.release()
  }

  /** One at a time: who asks meanwhile waits for the one that is under way. */
  #renew() {
    this.#renewal ??= this.#renewNow().finally(() => (this.#renewal = undefined))
    return this.#renewal
  }

  async #renewNow() {
    if (this.#lost) throw this.#lost
    try {
      this.#facts = await renewLease(this.#store, this.#sessionId, this.number, this.#ttlMs)
    } catch (error) {
      if (error?.code === 'WAYMARK_LEASE_LOST') this.#lose(error)
      throw error
    }
  }

  #lose(error) {
    if (this.#lost || this.isReleased) return
    this.#lost = error
    this.#end()
    this.#abort.abort(error)
  }

  #end() {
    clearInterval(this.#timer)
    leases.delete(this.#key)
  }

  async #releaseNow() {
    this.#end()
    await this.#renewal?.catch(() => {})
    await releaseLease(this.#store, this.#sessionId, this.number)
  }
}

async function acquireSession(store, sessionId, options) {
  const { claim, waiting } = read(options)
  const acquired = await patiently(
    () => acquireLease(store, sessionId, claim),
    ({ isHeld }) => !isHeld,
    waiting,
  )
  if (acquired.isHeld) throw held(sessionId, acquired)
  return new SessionLease(store, sessionId, claim.ttlMs, acquired)
}

async function acquireNext(store, options) {
  const { claim, waiting } = read(options)
  const next = await patiently(
    // What somebody took meanwhile is theirs.
    () => acquireNextLease(store, { ...claim, force: false }),
    (found) => found !== null,
    waiting,
  )
  return next && new SessionLease(store, next.sessionId, claim.ttlMs, next)
}

function held(sessionId, { owner, number, expiresAt }) {
  const left = Math.max(0, expiresAt - Date.now())
  const message =
    `Session ${sessionId} belongs to ${JSON.stringify(owner)} for another ${left} ms, or longer if that is alive. ` +
    'Wait for it with waitMs'
  return Object.assign(errorOf('WAYMARK_LEASE_HELD', message), { lease: { owner, number, expiresAt } })
}

function read(options = {}) {
  if (!isObject(options)) throw wrong('options', 'an object', options)
  const { waitMs = 0 } = options
  if (!(waitMs === Infinity || (Number.isInteger(waitMs) && waitMs >= 0))) {
    throw wrong('options.waitMs', 'a whole number, 0 or more, or Infinity', waitMs)
  }
  const { owner = defaultOwner(), ttlMs = DEFAULT_TTL_MS, force, status } = options
  return { claim: { owner, ttlMs, force, status }, waiting: { waitMs, signal: checkedSignal(options.signal) } }
}

/** Tells people where to look, and two stores of one process apart. */
function defaultOwner() {
  // Loaded here: most who load the package never ask, and a command would start noticeably later.
  const { randomBytes } = require('node:crypto')
  const { hostname } = require('node:os')
  const place = hostname()
    .replaceAll(/\p{Cc}/gu, '')
    .slice(0, 100)
  return `${place}/${process.pid}/${randomBytes(3).toString('hex')}`
}

/** Whether another process holds a lock that is needed for a moment: for longer, if it was stopped in the middle of a write. */
function isBusy(error) {
  return error?.code === 'WAYMARK_BUSY'
}

/** Tries until the answer is good, or the time is over; gives the last answer. */
async function patiently(attempt, isGood, { waitMs, signal }) {
  const began = performance.now()
  const left = () => waitMs - (performance.now() - began)
  for (;;) {
    if (signal?.aborted) throw abortError(signal)
    let answer
    try {
      answer = await attempt()
    } catch (error) {
      if (!isBusy(error) || left() <= 0) throw error
    }
    if (answer !== undefined && (isGood(answer) || left() <= 0)) return answer
    // Not all who wait look at the same moment.
    await pause(Math.min(left(), LOOK_AGAIN_MS * (0.5 + Math.random())), signal)
  }
}

/** Somebody waits for it: this timer keeps the process alive. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(end, ms)
    function end() {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    function stop() {
      clearTimeout(timer)
      reject(abortError(signal))
    }
    signal?.addEventListener('abort', stop, { once: true })
  })
}

module.exports = { SessionLease, acquireNext, acquireSession }
