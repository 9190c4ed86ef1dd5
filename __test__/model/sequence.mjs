// One sequence: stores of its own, the operations one after another, and the complete state compared at the end.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import * as waymark from '../../index.js'
import { CallLog, Written } from './calls.mjs'
import { differenceOf, shown } from './compare.mjs'
import { LocationModel, Refusal, StoreModel, Violation } from './model.mjs'
import { AGENTS, LABELS, MOMENT_MS, OPERATIONS, SESSIONS, TASKS, everyPolicy, isByAge, sleep } from './operations.mjs'
import { Random, textOf } from './random.mjs'

const { CheckpointStore } = waymark
const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']
const SHORTEST = 60
const LONGEST = 100
/** Methods that report a refusal in their result; all others reject. */
const RESULT_METHODS = new Set([
  'saveSession',
  'saveTaskTree',
  'deleteSession',
  'createCheckpoint',
  'restoreCheckpoint',
  'deleteCheckpoint',
  'saveTaskResult',
  'recoverSession',
  'labelCheckpoint',
  'pinCheckpoint',
  'unpinCheckpoint',
  'forkSession',
  'save',
  'delete',
])

/** The store did not do what the model says. */
export class Mismatch extends Error {
  constructor(message, operation) {
    super(message)
    this.operation = operation
  }
}

/** Chooses everything about a sequence: the options of its stores and its operations, as plain JSON. */
export function makeSequence(seed, backend) {
  const random = new Random(seed)
  const optionsOf = (keepPrevious) => ({
    durability: random.chance(0.1) ? 'full' : 'relaxed',
    maxCheckpointsPerSession: random.pick([undefined, undefined, undefined, 1, 2, 4, 8, 'Infinity']),
    retention: random.pick([
      undefined,
      undefined,
      undefined,
      { keepLast: 3 },
      { keepLast: 2, keepLabelled: false },
      {},
    ]),
    maxCheckpointsPerAgent: random.pick([undefined, undefined, 1, 3]),
    encoding: random.pick([undefined, ...ENCODINGS, 'delta']),
    deltaCacheBytes: random.pick([undefined, undefined, 0, 5000]),
    keepPrevious,
  })
  const keepPrevious = random.pick([undefined, 0, 1, 2])
  const options = [optionsOf(keepPrevious), optionsOf(keepPrevious), optionsOf(random.pick([0, 1]))]
  const targets = {
    files: ['memory', 'files'],
    sqlite: ['memory', 'sqlite'],
    memory: ['memory'],
    postgres: ['memory', 'postgres'],
  }
  const target = random.pick([...targets[backend], 'memory', 'sqlite'])
  const weights = Object.fromEntries(Object.entries(OPERATIONS).map(([name, { weight }]) => [name, weight]))
  const length = random.between(SHORTEST, LONGEST)
  const operations = []
  while (operations.length < length) {
    const name = random.weighted(weights)
    const on = Number(random.weighted({ 0: 5, 1: 3, 2: 2 }))
    const args = { on, ...OPERATIONS[name].make(random) }
    operations.push({ name, args })
    // What an aborted conversion left is converted again, often back to what it was.
    const { session } = args
    const convert = (encoding, abort) => operations.push({ name: 'convert', args: { on, session, encoding, abort } })
    if (name === 'convert' && args.abort) convert(random.pick(ENCODINGS))
    if (name === 'createMany' && random.chance(0.5)) {
      convert('delta')
      convert(random.pick(ENCODINGS), random.between(1, 30))
      convert('delta')
    }
  }
  return { seed, backend, target, options, operations }
}

/** Runs a sequence. Gives what was used; throws a `Mismatch`, which has the calls in its `lines`. */
export async function runSequence(sequence, { backends, wrap = (store) => store }) {
  const trial = new Trial(sequence, backends, wrap)
  try {
    await trial.open()
    for (const [at, operation] of sequence.operations.entries()) {
      trial.at = at
      trial.operation = operation.name
      await OPERATIONS[operation.name].run(trial, operation.args)
    }
    trial.at = sequence.operations.length
    trial.linesBeforeState = trial.log.lines.length
    trial.operation = 'the state at the end'
    await trial.checkState()
    trial.operation = 'the state of stores that were opened again'
    await trial.releaseAll()
    for (const handle of trial.handles) await trial.reopen(handle, 'new', handle.options.encoding)
    await trial.checkState()
    return { used: trial.log.used, calls: trial.log.lines.length }
  } catch (error) {
    const mismatch = error instanceof Violation ? new Mismatch(error.message) : error
    // Of the calls that compare the state, the one that fails is enough.
    const { lines } = trial.log
    const isState = trial.at === sequence.operations.length
    const shownLines = isState
      ? [...lines.slice(0, trial.linesBeforeState), ...lines.slice(trial.linesBeforeState).slice(-1)]
      : lines
    Object.assign(mismatch, { at: trial.at, operation: trial.operation, lines: shownLines })
    throw mismatch
  } finally {
    await trial.end()
  }
}

class Trial {
  log = new CallLog()
  handles = []
  leases = []
  /** What is in the files that were exported. */
  exports = new Map()
  asyncDispose = Symbol.asyncDispose
  #sequence
  #backends
  #wrap
  #directory = mkdtempSync(join(tmpdir(), 'waymark-model-'))
  #policies = 0

  constructor(sequence, backends, wrap) {
    this.#sequence = sequence
    this.#backends = backends
    this.#wrap = wrap
  }

  async open() {
    const { backend, target, options } = this.#sequence
    const [shared, other] = [new LocationModel(), new LocationModel()]
    const first = this.#backends[backend]()
    const second = this.#backends[target]()
    // A store in memory belongs to one object.
    const locations =
      backend === 'memory'
        ? [[first, shared]]
        : [
            [first, shared],
            [first, shared],
          ]
    for (const [index, [location, model]] of [...locations, [second, other]].entries()) {
      const isTarget = model === other
      const handle = { name: isTarget ? 'c' : 'ab'[index], location, options: options[isTarget ? 2 : index] }
      handle.locationModel = model
      this.handles.push(handle)
      await this.#openStore(handle)
    }
  }

  async #openStore(handle) {
    const options = Object.fromEntries(Object.entries(handle.options).filter(([, value]) => value !== undefined))
    if (options.maxCheckpointsPerSession === 'Infinity') options.maxCheckpointsPerSession = Infinity
    handle.store = new CheckpointStore(handle.location, options)
    handle.facade = this.#wrap(handle.store)
    const isFirst = handle.model === undefined
    handle.model = new StoreModel(handle.locationModel, options)
    handle.baseDir = handle.store.getBaseDir()
    const location = this.handles.find((each) => each.locationModel === handle.locationModel)
    const written = `location${location.name.toUpperCase()}`
    this.log.note(
      `${isFirst ? 'let ' : ''}${handle.name} = new CheckpointStore(${written}, ${this.log.written(options)})`,
    )
    const answer = await this.call(handle, 'initialize')
    if (answer.code) throw new Mismatch(`initialize() was refused: ${answer.error}`)
  }

  async end() {
    // What was aborted or failed may still be under way.
    for (const { store } of this.handles) await store?.close().catch(() => {})
    rmSync(this.#directory, { recursive: true, force: true })
  }

  // What operations use

  /** The store that an operation is about; `location` 0 asks for one of the shared location. */
  handle(on, location) {
    if (typeof on === 'object') return on
    if (this.handles.length === 2) return this.handles[location === 0 ? 0 : on === 2 ? 1 : 0]
    return this.handles[location === 0 ? on % 2 : on]
  }

  text(seed, length) {
    const text = textOf(seed, length)
    this.log.name(text, `text(${seed}, ${length})`)
    return text
  }

  file(number) {
    const path = join(this.#directory, `export-${number}`)
    this.log.name(path, `file${number}`)
    return path
  }

  policy() {
    const all = everyPolicy(this.log)
    return all[(this.#policies += 1) % all.length]
  }

  /** The checkpoint at a share of the list, newest first; one that does not exist for `null`. */
  checkpointId(handle, session, pick) {
    return this.pickFrom(handle.model.checkpointsOf(session), pick)
  }

  pickFrom(checkpoints, pick) {
    if (pick === null || pick === undefined || checkpoints.length === 0) return 'cp-none'
    return checkpoints[Math.floor(pick * checkpoints.length)].id
  }

  condition(handle, session, kind) {
    const [newest] = handle.model.checkpointsOf(session)
    if (kind === 'newest') return newest?.id ?? null
    return kind === 'none' ? null : this.checkpointId(handle, session, 0.99)
  }

  async revision(handle, session, kind) {
    if (kind === 'none') return null
    if (kind === 'other') return 'of another one'
    const answer = await this.call(handle, 'loadSession', [session, { withRevision: true }])
    this.expect(answer, () => handle.model.loadSession(session, { withRevision: true }))
    if (answer.value) this.log.name(answer.value.revision, `${answer.name}.revision`)
    return answer.value?.revision ?? null
  }

  /** Waits where a retention by age is in force, so that every earlier checkpoint is older. */
  async beforeNew(handle, session) {
    if (isByAge(handle.model.getRetention(session))) await sleep(MOMENT_MS)
  }

  async call(handle, method, args = [], passed = args) {
    const written = args.map((arg) => (arg?.facade ? new Written(arg.name) : arg))
    const stores = passed.map((arg) => (arg?.facade ? arg.store : arg))
    const answer = await this.log.call('CheckpointStore', handle.name, handle.facade, method, written, stores)
    return this.#checkForm(method, answer)
  }

  /** For the methods that return no promise. */
  callNow(handle, method, args) {
    this.log.used.add(`CheckpointStore.${method}`)
    if (method !== 'getBaseDir') {
      const name = method === 'checkpoints' ? 'walk' : 'auto'
      this.log.note(`const ${name} = ${handle.name}.${method}(${args.map((arg) => this.log.written(arg)).join(', ')})`)
    }
    return handle.facade[method](...args)
  }

  async callAgent(handle, session, agent, method, args = []) {
    this.log.used.add('CheckpointStore.agent')
    const receiver = `${handle.name}.agent(${JSON.stringify(session)}, ${JSON.stringify(agent)})`
    const answer = await this.log.call('AgentCheckpoints', receiver, handle.facade.agent(session, agent), method, args)
    return this.#checkForm(method, answer)
  }

  #checkForm(method, answer) {
    const isResult = RESULT_METHODS.has(method)
    const isBeforeUse = ['WAYMARK_CLOSED', 'WAYMARK_NOT_INITIALIZED'].includes(answer.code)
    if (answer.code && !isBeforeUse) {
      this.demand(
        answer.isRejection !== isResult,
        `${method} ${answer.isRejection ? 'rejected' : 'did not reject'}: ${answer.error}`,
      )
    }
    return answer
  }

  demand(holds, message) {
    if (!holds) throw new Mismatch(message)
  }

  /** Compares an answer with what the model gives, or refuses. */
  expect(answer, compute) {
    let expected
    try {
      expected = compute()
    } catch (error) {
      if (error instanceof Refusal) {
        const found = answer.code ?? `answered with ${shown(answer.value)}`
        this.demand(
          error.codes.includes(answer.code),
          `expected ${error.message}, but it was ${found}: ${answer.error ?? ''}`,
        )
        if (answer.code === 'WAYMARK_CONFLICT') {
          const difference = differenceOf(answer.current, error.members.current)
          this.demand(!difference, `current is ${shown(answer.current)}, not ${shown(error.members.current)}`)
        }
        return
      }
      if (error instanceof Violation && answer.code) {
        throw new Mismatch(`refused with ${answer.code}: ${answer.error}`)
      }
      throw error
    }
    this.demand(!answer.code, `refused with ${answer.code}: ${answer.error}, expected ${shown(expected)}`)
    const difference = differenceOf(answer.value, expected)
    if (!difference) return
    const { path, actual, expected: wanted } = difference
    throw new Mismatch(`the answer${path} is ${actual}, expected ${wanted}`)
  }

  /** The same for a write to a session: one that is refused for a lost lease tells the owner of that lease. */
  expectWrite(handle, session, answer, compute) {
    this.expect(answer, compute)
    if (answer.code !== 'WAYMARK_LEASE_LOST') return
    for (const lease of this.leases) {
      const isOwn = lease.handle === handle && lease.sessionId === session
      if (!isOwn || handle.model.leases.get(session) !== lease.number) continue
      lease.isLost = true
      this.checkLease(lease)
    }
  }

  /** After a call that skips sessions of other owners: the store may have learned that it lost its leases of them. */
  mayLearnOfLostLeases(handle) {
    for (const lease of this.leases) {
      const current = handle.model.location.leases.get(lease.sessionId)
      if (lease.handle === handle && !lease.isLost && current?.number !== lease.number) lease.isLost = undefined
    }
  }

  // Leases

  /** Keeps the lease of an answer, and gives what can be seen of it. */
  withLease(handle, answer) {
    if (!answer.value) return answer
    const { object = answer.value } = {}
    const lease = {
      object,
      handle,
      name: answer.name,
      sessionId: object.sessionId,
      number: object.number,
      isLost: false,
      isReleased: false,
    }
    this.leases.push(lease)
    return { ...answer, value: this.#seen(lease) }
  }

  #seen({ object }) {
    const members = ['sessionId', 'owner', 'number', 'expiresAt', 'isLost', 'isReleased']
    for (const member of [...members, 'signal']) this.log.used.add(`SessionLease.${member}`)
    this.demand(object.signal.aborted === object.isLost, 'signal and isLost of a lease differ')
    return Object.fromEntries(members.map((member) => [member, object[member]]))
  }

  checkLease(lease) {
    const seen = this.#seen(lease)
    if (lease.isLost !== undefined) this.demand(seen.isLost === lease.isLost, `isLost of a lease is ${seen.isLost}`)
    this.demand(seen.isReleased === lease.isReleased, `isReleased of a lease is ${seen.isReleased}`)
    this.demand(seen.sessionId === lease.sessionId && seen.number === lease.number, 'a lease changed')
  }

  async renewLease(lease) {
    const answer = await this.log.call('SessionLease', lease.name, lease.object, 'renew')
    this.expect(answer, () => lease.handle.model.renewLease(lease.sessionId, lease.number, lease.isReleased))
    if (answer.code && !lease.isReleased) lease.isLost = true
    this.checkLease(lease)
  }

  async releaseLease(lease, isDisposed = false) {
    const method = isDisposed ? this.asyncDispose : 'release'
    const answer = await this.log.call('SessionLease', lease.name, lease.object, method)
    if (!lease.isReleased) lease.handle.model.releaseLease(lease.sessionId, lease.number)
    lease.isReleased = true
    this.expect(answer, () => undefined)
    this.checkLease(lease)
  }

  async releaseAll(handle) {
    for (const lease of this.leases) {
      if ((!handle || lease.handle === handle) && !lease.isReleased) await this.releaseLease(lease)
    }
  }

  // Closing and comparing

  /** Closes a store and opens it again: the same object, or another one with another encoding by default. */
  async reopen(handle, how, encoding) {
    const isNew = how === 'new' && !handle.location.startsWith('memory:')
    if (isNew) await this.releaseAll(handle)
    const answer = await this.call(handle, how === 'dispose' ? this.asyncDispose : 'close')
    this.expect(answer, () => undefined)
    this.expect(await this.call(handle, 'listSessions'), () => {
      throw new Refusal(['WAYMARK_CLOSED'])
    })
    if (isNew) {
      handle.options = { ...handle.options, encoding }
      await this.#openStore(handle)
    } else {
      this.expect(await this.call(handle, 'initialize'), () => undefined)
    }
  }

  /** Everything that can be observed, of every store. */
  async checkState() {
    for (const handle of this.handles) {
      const run = (name, args = {}) => OPERATIONS[name].run(this, { on: handle, ...args })
      for (const name of ['listSessions', 'sessionsInfo', 'recoverable']) await run(name)
      await run('listAllCheckpoints', { session: SESSIONS[0], filter: {}, limit: 7 })
      for (const session of SESSIONS) {
        for (const options of [{ withRevision: true }, { version: -1 }, { version: -2 }, { version: -3 }]) {
          await run('loadSession', { session, options })
        }
        for (const version of [0, -1, -2, -3]) await run('loadTaskTree', { session, version })
        for (const task of TASKS) await run('loadTaskResult', { session, task })
        await run('listCheckpoints', { session, limit: 0, offset: 0 })
        await run('listCheckpointInfo', { session, filter: {}, limit: 0 })
        for (const label of LABELS) await run('getCheckpointByLabel', { session, label })
        for (const name of ['getLatestCheckpoint', 'history', 'verifySession', 'getRetention', 'listAgents']) {
          await run(name, { session })
        }
        for (const agent of AGENTS) {
          for (const method of ['list', 'info']) await run('agentRead', { session, agent, method, pick: 0, limit: 0 })
        }
        await run('getSessionStorageStats', { session })
        await run('sessionInfo', { session })
      }
    }
  }
}

const OF_EVERY_FUNCTION = new Set(['length', 'name', 'arguments', 'caller', 'prototype'])

/** Everything public, as `Class.member`: methods and getters of all exported classes, and their static methods. */
export function publicMembers() {
  const members = []
  for (const [className, exported] of Object.entries(waymark.default)) {
    if (typeof exported !== 'function' || !exported.prototype) continue
    for (const key of Reflect.ownKeys(exported.prototype)) {
      if (key !== 'constructor') members.push(`${className}.${String(key)}`)
    }
    for (const key of Object.getOwnPropertyNames(exported)) {
      if (!OF_EVERY_FUNCTION.has(key)) members.push(`${className}.static ${key}`)
    }
  }
  return members
}
