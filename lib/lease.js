// Session leases that are renewed automatically until they are released.
//
// The backend checks the fencing token of every write. This file only renews a lease, and reports a loss to its owner as
// soon as it is known.

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
const { abortError, checkedSignal } = require('./abort-signal.js')
const { errorOf, invalidValue, isObject } = require('./errors.js')
const { startInterval } = require('./timer.js')

const DEFAULT_TTL_MS = 30_000

/** Two renewals in a row may fail before the lease expires. */
const RENEWALS_PER_TTL = 3

/** The mean interval between two attempts to acquire a lease. */
const RETRY_INTERVAL_MS = 100

/** Active leases, on the class: test runners evaluate this file again for a class that is already loaded. */
const LEASES = Symbol.for('waymark.leases')
if (!Object.hasOwn(CheckpointStore, LEASES)) Object.defineProperty(CheckpointStore, LEASES, { value: new Map() })
const leases = CheckpointStore[LEASES]

const keyOf = (store, sessionId, number) => `${store}/${number}/${sessionId}`

// A write was rejected. The `signal` of the lease aborts before the promise of the write rejects.
onLeaseLost((store, sessionId, number, error) => leases.get(keyOf(store, sessionId, number))?.lose(error))

class SessionLease {
  #store
  #sessionId
  #ttlMs
  #record
  #timer
  #renewal
  #isReleased = false
  #release
  #lost
  #abort = new AbortController()
  #key

  constructor(store, sessionId, ttlMs, record) {
    this.#store = store
    this.#sessionId = sessionId
    this.#ttlMs = ttlMs
    this.#record = record
    this.#key = keyOf(storeNumber(store), sessionId, record.number)
    leases.set(this.#key, { lose: (error) => this.#lose(error) })
    // A renewal that fails for another reason is tried again at the next tick.
    this.#timer = startInterval(() => this.#renew().catch(() => {}), Math.max(1, Math.floor(ttlMs / RENEWALS_PER_TTL)))
  }

  get sessionId() {
    return this.#sessionId
  }

  get owner() {
    return this.#record.owner
  }

  get number() {
    return this.#record.number
  }

  get expiresAt() {
    return this.#record.expiresAt
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
      // The next call tries again.
      this.#release = undefined
      throw error
    })
    return this.#release
  }

  async [Symbol.asyncDispose]() {
    await this.release()
  }

  /** Calls during a renewal share it. */
  #renew() {
    this.#renewal ??= this.#renewNow().finally(() => (this.#renewal = undefined))
    return this.#renewal
  }

  async #renewNow() {
    if (this.#lost) throw this.#lost
    try {
      this.#record = await renewLease(this.#store, this.#sessionId, this.number, this.#ttlMs)
    } catch (error) {
      if (error?.code === 'WAYMARK_LEASE_LOST') this.#lose(error)
      throw error
    }
  }

  #lose(error) {
    if (this.#lost || this.isReleased) return
    this.#lost = error
    this.#stop()
    this.#abort.abort(error)
  }

  #stop() {
    clearInterval(this.#timer)
    leases.delete(this.#key)
  }

  async #releaseNow() {
    this.#stop()
    await this.#renewal?.catch(() => {})
    await releaseLease(this.#store, this.#sessionId, this.number)
  }
}

async function acquireSession(store, sessionId, options) {
  const { request, wait } = readOptions(options)
  const acquired = await retryUntil(
    () => acquireLease(store, sessionId, request),
    ({ isHeld }) => !isHeld,
    wait,
  )
  if (acquired.isHeld) throw leaseHeld(sessionId, acquired)
  return new SessionLease(store, sessionId, request.ttlMs, acquired)
}

async function acquireNext(store, options) {
  const { request, wait } = readOptions(options)
  const next = await retryUntil(
    // Never force: another process may have acquired the session since it was listed.
    () => acquireNextLease(store, { ...request, force: false }),
    (lease) => lease !== null,
    wait,
  )
  return next && new SessionLease(store, next.sessionId, request.ttlMs, next)
}

function leaseHeld(sessionId, { owner, number, expiresAt }) {
  const left = Math.max(0, expiresAt - Date.now())
  const message =
    `Session ${sessionId} is leased to ${JSON.stringify(owner)} for another ${left} ms, or longer if it renews. ` +
    'Wait with waitMs'
  return Object.assign(errorOf('WAYMARK_LEASE_HELD', message), { lease: { owner, number, expiresAt } })
}

function readOptions(options = {}) {
  if (!isObject(options)) throw invalidValue('options', 'an object', options)
  const { waitMs = 0 } = options
  if (!(waitMs === Infinity || (Number.isInteger(waitMs) && waitMs >= 0))) {
    throw invalidValue('options.waitMs', 'a whole number, 0 or more, or Infinity', waitMs)
  }
  const { owner = defaultOwner(), ttlMs = DEFAULT_TTL_MS, force, status } = options
  return { request: { owner, ttlMs, force, status }, wait: { waitMs, signal: checkedSignal(options.signal) } }
}

/** Names the machine and the process; the random part distinguishes the stores of one process. */
function defaultOwner() {
  // Loaded on demand: few callers need it, and it would slow the start of the command.
  const { randomBytes } = require('node:crypto')
  const { hostname } = require('node:os')
  const host = hostname()
    .replaceAll(/\p{Cc}/gu, '')
    .slice(0, 100)
  return `${host}/${process.pid}/${randomBytes(3).toString('hex')}`
}

/** Whether another process holds the lock: briefly, or for longer if it was stopped in the middle of a write. */
function isBusy(error) {
  return error?.code === 'WAYMARK_BUSY'
}

/** Repeats `attempt` until `isDone` accepts its result or `waitMs` has passed; returns the last result. */
async function retryUntil(attempt, isDone, { waitMs, signal }) {
  const startedAt = performance.now()
  const remaining = () => waitMs - (performance.now() - startedAt)
  for (;;) {
    if (signal?.aborted) throw abortError(signal)
    let result
    try {
      result = await attempt()
    } catch (error) {
      if (!isBusy(error) || remaining() <= 0) throw error
    }
    if (result !== undefined && (isDone(result) || remaining() <= 0)) return result
    // Jitter: processes that wait for one session must not retry in step.
    await pause(Math.min(remaining(), RETRY_INTERVAL_MS * (0.5 + Math.random())), signal)
  }
}

/** The caller awaits this, so its timer keeps the process alive. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(finish, ms)
    function finish() {
      signal?.removeEventListener('abort', cancel)
      resolve()
    }
    function cancel() {
      clearTimeout(timer)
      reject(abortError(signal))
    }
    signal?.addEventListener('abort', cancel, { once: true })
  })
}

module.exports = { SessionLease, acquireNext, acquireSession }
