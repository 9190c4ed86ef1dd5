// What a sequence is made of. Each operation has a `weight`, `make(random, world)`, which chooses its arguments as plain JSON, and
// `run(t, args)`, which makes the call and compares the answer with the model's. Checkpoints are chosen as a share of those that
// there are, so that a sequence stays meaningful when parts of it are left out.

import { existsSync } from 'node:fs'

import { CheckpointPolicy } from '../../index.js'
import { Written } from './calls.mjs'
import { matching } from './compare.mjs'
import { Refusal } from './model.mjs'

export const SESSIONS = ['s0', 's1', 's2', 'f0', 'f1']
export const AGENTS = ['g0', 'g1']
export const TASKS = ['t0', 't1', 't2', 't3']
export const LABELS = ['red', 'green', 'blue']
const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']
const TRIGGERS = ['auto', 'manual', 'error', 'milestone']
const STATUSES = ['initializing', 'active', 'paused', 'resuming', 'completing', 'completed', 'failed', 'archived']
const TASK_STATUSES = ['pending', 'in_progress', 'failed', 'completed']
const AGENT_STATUSES = ['in_progress', 'completed', 'failed', 'halted']
const LONG_TTL_MS = 3_600_000
const FAR_FUTURE = 4_102_444_800_000
const EARLY = 5000
/** Enough for a time limit of a millisecond to be over. */
const MOMENT_MS = 5

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Choosing

const anySession = (random) => random.weighted({ s0: 8, s1: 4, s2: 1, f0: 1, f1: 1 })
const anyPick = (random) => (random.chance(0.05) ? null : random.next() ** 2)
const maybe = (random, probability, value) => (random.chance(probability) ? value() : undefined)
const anyReset = (random) => ({
  resetFailedTasks: maybe(random, 0.4, () => true),
  resetInProgressTasks: maybe(random, 0.4, () => true),
})

function anyTasks(random) {
  const chosen = TASKS.filter(() => random.chance(0.6))
  return Object.fromEntries(
    chosen.map((id) => {
      const status = random.pick(TASK_STATUSES)
      const isBegun = status !== 'pending'
      const task = { id, status, retryCount: random.between(0, 2), prompt: { text: [random.between(1, 3), 120] } }
      if (isBegun) Object.assign(task, { assignedAgentId: 'g0', startedAt: random.between(1, 9) })
      if (status === 'failed') Object.assign(task, { result: { success: false, output: 'no' }, completedAt: 9 })
      return [id, task]
    }),
  )
}

function anyState(random) {
  return {
    name: `n${random.between(0, 3)}`,
    status: random.pick(STATUSES),
    createdAt: 1000,
    expiresAt: random.pick([EARLY - 1, EARLY, EARLY + 1, FAR_FUTURE]),
    taskTree: anyTasks(random),
    metrics: maybe(random, 0.3, () => ({
      totalTasks: 4,
      completedTasks: random.between(0, 2),
      failedTasks: 1,
      pendingTasks: 1,
      inProgressTasks: 0,
    })),
    metadata: maybe(random, 0.7, () => ({
      turn: random.between(0, 99),
      notes: { text: [random.between(1, 4), random.pick([40, 400, 3000])] },
    })),
    extra: maybe(random, 0.2, () => ({ 'odd "key"': [random.next(), null, 'Zürich'] })),
  }
}

const anyEncoding = (random) =>
  random.chance(0.5)
    ? {}
    : random.chance(0.1)
      ? { compress: true }
      : { encoding: random.chance(0.4) ? 'delta' : random.pick(ENCODINGS) }

function anyRetention(random) {
  const retention = {}
  if (random.chance(0.7)) retention.keepLast = random.between(1, 5)
  if (random.chance(0.15)) retention.keepHourly = random.between(1, 3)
  if (random.chance(0.15)) retention.keepDaily = random.between(1, 3)
  if (random.chance(0.2)) retention.maxBytes = random.pick([1, 3000, 9000, 1e9])
  if (random.chance(0.1)) retention.maxAgeMs = random.pick([1, LONG_TTL_MS])
  if (random.chance(0.3)) retention.keepLabelled = random.chance(0.4)
  return retention
}

/** A retention by age is only predictable for checkpoints that are clearly older. */
const isByAge = (retention) => retention?.maxAgeMs === 1

const anyFilter = (random) => ({
  trigger: maybe(random, 0.25, () => random.pick(TRIGGERS)),
  label: maybe(random, 0.15, () => random.pick(LABELS)),
  sincePick: maybe(random, 0.15, () => random.next()),
  untilPick: maybe(random, 0.15, () => random.next()),
  asDate: random.chance(0.3),
})

const anyAbort = (random, probability) => maybe(random, probability, () => random.between(0, 5) ** 2)

// Making what was chosen

/** Replaces `{ text: [seed, length] }` by that text. */
function expanded(t, value) {
  if (Array.isArray(value)) return value.map((each) => expanded(t, each))
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value.text) && Object.keys(value).length === 1) return t.text(...value.text)
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .map(([key, each]) => [key, expanded(t, each)]),
  )
}

function sessionOf(t, handle, { session, state, parent }) {
  const lastCheckpointId = parent === undefined ? null : t.checkpointId(handle, session, parent)
  const checkpointIds = lastCheckpointId === null ? [] : [lastCheckpointId]
  return { id: session, lastCheckpointId, checkpointIds, errors: [], ...expanded(t, state) }
}

function filterOf(t, handle, session, { trigger, label, sincePick, untilPick, asDate }) {
  const timeAt = (pick) => {
    const id = t.checkpointId(handle, session, pick)
    const time = id.startsWith('cp-none') ? EARLY : Number.parseInt(id.split('-')[1], 36)
    return asDate ? new Date(time) : time
  }
  const filter = {
    trigger,
    label,
    since: sincePick === undefined ? undefined : timeAt(sincePick),
    until: untilPick === undefined ? undefined : timeAt(untilPick),
  }
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
}

/** Follows the cursors of a list to its end; every page has its due length and total. */
async function allPages(t, call, limit) {
  const found = []
  let cursor
  for (;;) {
    const paging = { ...(limit && { limit }), ...(cursor && { cursor }) }
    const answer = await call(paging)
    if (answer.code) return answer
    const { checkpoints, total, damaged } = answer.value
    t.demand(damaged.length === 0, `damaged: ${JSON.stringify(damaged)}`)
    t.demand(!limit || checkpoints.length <= limit, `a page of ${checkpoints.length} with limit ${limit}`)
    found.push(...checkpoints)
    const next = answer.value.cursor
    if (!next) return { value: { checkpoints: found, total } }
    t.demand(checkpoints.length === limit, `a page of ${checkpoints.length} before the last, with limit ${limit}`)
    t.log.name(next, `${answer.name}.cursor`)
    cursor = next
  }
}

/** Options that watch long work and, after a number of quarters of a millisecond, stop it. */
function watched(t, abort) {
  const told = []
  let isSettled = false
  const options = {
    onProgress: (progress) => {
      t.demand(!isSettled, 'onProgress was called after the promise was settled')
      told.push(progress)
    },
  }
  if (abort !== undefined) {
    const controller = new AbortController()
    options.signal = controller.signal
    const end = performance.now() + abort / 4
    const turn = () => (performance.now() < end ? setImmediate(turn) : controller.abort(new Error('stopped')))
    turn()
  }
  const written = { onProgress: options.onProgress }
  if (abort !== undefined) written.signal = new Written(`abortedAfter(${abort / 4})`)
  const settle = () => {
    isSettled = true
    let before
    for (const { phase, done, total } of told) {
      t.demand(done <= total, `${done} of ${total} done`)
      t.demand(before?.phase !== phase || before.done <= done, 'progress went back')
      before = { phase, done }
    }
  }
  return { options, written, settle }
}

/** Calls a method that takes `onProgress` and `signal` with its last argument. */
async function callWatched(t, handle, method, args, options, abort) {
  const watch = watched(t, abort)
  const answer = await t.call(
    handle,
    method,
    [...args, { ...options, ...watch.written }],
    [...args.map((arg) => arg?.store ?? arg), { ...options, ...watch.options }],
  )
  watch.settle()
  if (abort === 0) t.demand(answer.code === 'ABORT_ERR', `${method} was not stopped by a signal that is aborted`)
  t.demand(abort !== undefined || answer.code !== 'ABORT_ERR', `${method} was stopped by no signal`)
  return answer
}

/** After a new checkpoint: its time, and what retention left, where the model cannot compute it. */
async function settleNew(t, handle, session) {
  for (const checkpoint of handle.model.timesInDoubt(session)) {
    const { id, agentId } = checkpoint
    const answer = await (agentId
      ? t.callAgent(handle, session, agentId, 'get', [id])
      : t.call(handle, 'getCheckpoint', [session, id]))
    // One that `maxBytes` removed at once has none.
    handle.model.learnTime(checkpoint, answer.value?.timestamp ?? Number.parseInt(id.split('-')[1], 36))
  }
  if (!handle.model.isInDoubt(session)) return
  const { value } = await t.call(handle, 'listCheckpointInfo', [session])
  handle.model.learnRetained(session, value?.checkpoints.map(({ id }) => id) ?? [])
}

/** After an aborted `convert`, a fork or a copy: which encodings there are now. */
async function settleEncodings(t, handle, session) {
  await OPERATIONS.listCheckpointInfo.run(t, { on: handle, session, filter: {} })
  for (const agent of handle.model.listAgents(session)) {
    const calls = (method) => t.callAgent(handle, session, agent, method)
    const answer = await calls('info')
    t.expect(answer, () => {
      const { checkpoints, total } = handle.model.agentList(session, agent, {}, true)
      return { checkpoints, total, damaged: [] }
    })
  }
}

const refusedArgument = (codes) => () => {
  throw new Refusal(codes)
}

// The operations

export const OPERATIONS = {
  createCheckpoint: {
    weight: 26,
    make: (random) => ({
      session: anySession(random),
      state: anyState(random),
      parent: maybe(random, 0.7, () => anyPick(random)),
      agents: maybe(random, 0.4, () =>
        Object.fromEntries(
          AGENTS.filter(() => random.chance(0.6)).map((id) => [id, { id, state: random.pick(['idle', 'running']) }]),
        ),
      ),
      context: maybe(random, 0.4, () => ({ plan: random.between(0, 3), notes: { text: [random.between(1, 3), 200] } })),
      asMap: random.chance(0.2),
      isShort: random.chance(0.2),
      options: {
        trigger: random.pick(TRIGGERS),
        description: maybe(random, 0.2, () => 'why'),
        includeContext: maybe(random, 0.5, () => random.chance(0.8)),
        label: maybe(random, 0.3, () => random.pick(LABELS)),
        metadata: maybe(random, 0.2, () => ({ build: random.between(0, 9) })),
        ...anyEncoding(random),
      },
      isUnique: random.chance(0.3),
      condition: maybe(random, 0.2, () => random.pick(['newest', 'newest', 'none', 'any'])),
    }),
    async run(t, args) {
      const handle = t.handle(args.on)
      const session = sessionOf(t, handle, args)
      const options = expanded(t, args.options)
      if (args.isUnique && options.label) options.uniqueLabel = true
      if (args.condition) options.ifParent = t.condition(handle, args.session, args.condition)
      const agentStates = expanded(t, args.agents ?? {})
      const contextStore = expanded(t, args.context ?? {})
      const given = { session, agentStates, contextStore, options }
      let passed = [session, agentStates, contextStore, options]
      if (args.isShort) {
        Object.assign(given, { agentStates: {}, contextStore: {} })
        passed = [session, options]
      } else if (args.asMap) {
        const mapped = { ...session, taskTree: new Map(Object.entries(session.taskTree)) }
        passed = [mapped, new Map(Object.entries(agentStates)), new Map(Object.entries(contextStore)), options]
      }
      await t.beforeNew(handle, args.session)
      const calledAt = Date.now()
      const answer = await t.call(handle, 'createCheckpoint', passed)
      t.expectWrite(handle, args.session, answer, () => handle.model.createCheckpoint(given, answer, calledAt))
      await settleNew(t, handle, args.session)
    },
  },

  // Checkpoints that resemble each other in groups: as deltas, each group has a key.
  createMany: {
    weight: 3,
    make: (random) => {
      const { isUnique: _, condition: __, ...args } = OPERATIONS.createCheckpoint.make(random)
      const groups = Array.from({ length: random.between(1, 4) }, () => [random.between(1, 4), random.between(2, 5)])
      return { ...args, groups }
    },
    async run(t, { groups, ...args }) {
      const texts = groups.flatMap(([seed, size]) => Array.from({ length: size }, () => seed))
      for (const [turn, seed] of texts.entries()) {
        const metadata = { turn, notes: { text: [seed, 3000] } }
        await OPERATIONS.createCheckpoint.run(t, { ...args, state: { ...args.state, metadata } })
      }
    },
  },

  saveSession: {
    weight: 6,
    make: (random) => ({
      session: anySession(random),
      state: anyState(random),
      parent: maybe(random, 0.5, () => anyPick(random)),
      condition: maybe(random, 0.4, () => random.pick(['current', 'current', 'none', 'other'])),
    }),
    async run(t, args) {
      const handle = t.handle(args.on)
      const session = sessionOf(t, handle, args)
      const options = args.condition && { ifRevision: await t.revision(handle, args.session, args.condition) }
      const answer = await t.call(handle, 'saveSession', options ? [session, options] : [session])
      t.expectWrite(handle, args.session, answer, () => handle.model.saveSession(session, options, answer))
    },
  },

  loadSession: {
    weight: 3,
    make: (random) => ({
      session: anySession(random),
      options: maybe(random, 0.7, () => ({
        version: maybe(random, 0.5, () => random.between(-3, 0)),
        withRevision: maybe(random, 0.5, () => true),
      })),
    }),
    async run(t, { on, session, options }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'loadSession', options ? [session, expanded(t, options)] : [session])
      t.expect(answer, () => handle.model.loadSession(session, expanded(t, options ?? {})))
    },
  },

  saveTaskTree: {
    weight: 2,
    make: (random) => ({ session: anySession(random), tree: anyTasks(random), asMap: random.chance(0.3) }),
    async run(t, { on, session, tree, asMap }) {
      const handle = t.handle(on)
      const taskTree = expanded(t, tree)
      const passed = asMap ? new Map(Object.entries(taskTree)) : taskTree
      const answer = await t.call(handle, 'saveTaskTree', [session, passed])
      t.expectWrite(handle, session, answer, () => handle.model.saveTaskTree(session, taskTree))
    },
  },

  loadTaskTree: {
    weight: 1,
    make: (random) => ({ session: anySession(random), version: random.between(-2, 0) }),
    async run(t, { on, session, version }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'loadTaskTree', [session, { version }])
      t.expect(answer, () => handle.model.loadTaskTree(session, { version }))
    },
  },

  saveTaskResult: {
    weight: 3,
    make: (random) => ({
      session: anySession(random),
      task: random.pick(TASKS),
      result: random.pick([null, 7, 'done', [1, [2]], { success: true, output: { text: [2, 50] } }]),
    }),
    async run(t, { on, session, task, result }) {
      const handle = t.handle(on)
      const value = expanded(t, result)
      const answer = await t.call(handle, 'saveTaskResult', [session, task, value])
      t.expectWrite(handle, session, answer, () => handle.model.saveTaskResult(session, task, value))
    },
  },

  loadTaskResult: {
    weight: 1,
    make: (random) => ({ session: anySession(random), task: random.pick(TASKS) }),
    async run(t, { on, session, task }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'loadTaskResult', [session, task])
      t.expect(answer, () => handle.model.loadTaskResult(session, task))
    },
  },

  createSessionDirectory: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'createSessionDirectory', [session])
      t.expectWrite(handle, session, answer, () => handle.model.createSessionDirectory(session, answer))
    },
  },

  deleteSession: {
    weight: 2,
    make: (random) => ({ session: random.pick(SESSIONS) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'deleteSession', [session])
      t.expectWrite(handle, session, answer, () => handle.model.deleteSession(session, answer))
    },
  },

  deleteCheckpoint: {
    weight: 4,
    make: (random) => ({ session: anySession(random), pick: random.chance(0.1) ? null : random.next() }),
    async run(t, { on, session, pick }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      const answer = await t.call(handle, 'deleteCheckpoint', [session, id])
      t.expectWrite(handle, session, answer, () => handle.model.deleteCheckpoint(session, id, answer))
    },
  },

  deleteSessionCheckpoints: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'deleteSessionCheckpoints', [session])
      t.expectWrite(handle, session, answer, () => handle.model.deleteSessionCheckpoints(session, answer))
    },
  },

  listSessions: {
    weight: 1,
    make: () => ({}),
    async run(t, { on }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'listSessions'), () => handle.model.listSessions())
    },
  },

  sessionsInfo: {
    weight: 1,
    make: () => ({}),
    async run(t, { on }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'sessionsInfo'), () => handle.model.sessionsInfo())
    },
  },

  sessionInfo: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'sessionInfo', [session]), () => handle.model.sessionInfo(session))
    },
  },

  getSessionStorageStats: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'getSessionStorageStats', [session])
      t.expect(answer, () => handle.model.getSessionStorageStats(session))
    },
  },

  listCheckpoints: {
    weight: 2,
    make: (random) => ({ session: anySession(random), limit: random.between(0, 4), offset: random.between(0, 3) }),
    async run(t, { on, session, limit, offset }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'listCheckpoints', [session, limit, offset])
      t.expect(answer, () => handle.model.listCheckpoints(session, limit, offset))
    },
  },

  listCheckpointInfo: {
    weight: 3,
    make: (random) => ({ session: anySession(random), filter: anyFilter(random), limit: random.between(0, 3) }),
    async run(t, { on, session, filter, limit }) {
      const handle = t.handle(on)
      const wanted = filterOf(t, handle, session, filter)
      const call = (paging) => t.call(handle, 'listCheckpointInfo', [session, { ...wanted, ...paging }])
      t.expect(await allPages(t, call, limit), () => handle.model.listCheckpointInfo(session, wanted))
    },
  },

  listAllCheckpoints: {
    weight: 1,
    make: (random) => ({ session: anySession(random), filter: anyFilter(random), limit: random.between(0, 4) }),
    async run(t, { on, session, filter, limit }) {
      const handle = t.handle(on)
      const wanted = filterOf(t, handle, session, filter)
      const answer = await allPages(
        t,
        (paging) => t.call(handle, 'listAllCheckpoints', [{ ...wanted, ...paging }]),
        limit,
      )
      t.expect(answer, () => {
        const { checkpoints, total, order } = handle.model.listAllCheckpoints(wanted)
        const ids = answer.value?.checkpoints.map(({ id }) => id)
        t.demand(String(ids) === String(order), `listAllCheckpoints gave the order ${ids}, not ${order}`)
        return { checkpoints, total }
      })
    },
  },

  checkpoints: {
    weight: 2,
    make: (random) => ({
      session: anySession(random),
      filter: anyFilter(random),
      skipDamaged: random.chance(0.3),
      most: random.chance(0.3) ? random.between(0, 2) : 1000,
    }),
    async run(t, { on, session, filter, skipDamaged, most }) {
      const handle = t.handle(on)
      const wanted = filterOf(t, handle, session, filter)
      const walk = t.callNow(handle, 'checkpoints', [session, { ...wanted, ...(skipDamaged && { skipDamaged }) }])
      t.log.used.add(`CheckpointIterator.${String(Symbol.asyncIterator)}`)
      t.demand(walk[Symbol.asyncIterator]() === walk, 'a walk is not its own iterator')
      const found = []
      let isDone = false
      while (!isDone && found.length < most) {
        const answer = await t.log.call('CheckpointIterator', walk.name ?? 'walk', walk, 'next')
        if (answer.code) {
          t.expect(answer, () => 'a checkpoint')
          return
        }
        isDone = answer.value.done
        if (!isDone) found.push(answer.value.value)
      }
      if (!isDone) {
        const ended = await t.log.call('CheckpointIterator', 'walk', walk, 'return')
        t.demand(ended.value?.done === true, 'return() did not end the walk')
        t.demand((await walk.next()).done, 'a walk goes on after return()')
      }
      t.expect({ value: found }, () => handle.model.checkpoints(session, wanted, most))
    },
  },

  getCheckpoint: {
    weight: 2,
    make: (random) => ({ session: anySession(random), pick: anyPick(random) }),
    async run(t, { on, session, pick }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      t.expect(await t.call(handle, 'getCheckpoint', [session, id]), () => handle.model.getCheckpoint(session, id))
    },
  },

  getLatestCheckpoint: {
    weight: 2,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'getLatestCheckpoint', [session])
      t.expect(answer, () => handle.model.getLatestCheckpoint(session))
    },
  },

  restoreCheckpoint: {
    weight: 4,
    make: (random) => ({
      session: anySession(random),
      pick: anyPick(random),
      form: random.pick(['id', 'path', 'both', 'arguments']),
      options: {
        ...anyReset(random),
        includeState: maybe(random, 0.4, () => true),
        validateChecksum: maybe(random, 0.4, () => true),
      },
    }),
    async run(t, { on, session, pick, form, options }) {
      const handle = t.handle(on)
      const checkpointId = t.checkpointId(handle, session, pick)
      const others = expanded(t, options)
      const forms = {
        id: [{ checkpointId, ...others }],
        path: [{ checkpointId: `${session}/${checkpointId}`, ...others }],
        both: [{ sessionId: session, checkpointId, ...others }],
        arguments: [session, checkpointId, others],
      }
      const answer = await t.call(handle, 'restoreCheckpoint', forms[form])
      const named = form === 'id' ? undefined : session
      t.expectWrite(handle, session, answer, () => handle.model.restoreCheckpoint(named, checkpointId, others))
    },
  },

  recoverSession: {
    weight: 2,
    make: (random) => ({
      session: anySession(random),
      options: {
        ...anyReset(random),
        includeState: maybe(random, 0.4, () => true),
        quarantine: maybe(random, 0.3, () => true),
        dryRun: maybe(random, 0.3, () => true),
      },
    }),
    async run(t, { on, session, options }) {
      const handle = t.handle(on)
      const wanted = expanded(t, options)
      const answer = await t.call(handle, 'recoverSession', [session, wanted])
      t.expectWrite(handle, session, answer, () => handle.model.recoverSession(session, wanted))
    },
  },

  recoverable: {
    weight: 1,
    make: () => ({}),
    async run(t, { on }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'recoverable'), () => handle.model.recoverable())
    },
  },

  verifyCheckpoint: {
    weight: 1,
    make: (random) => ({ session: anySession(random), pick: anyPick(random) }),
    async run(t, { on, session, pick }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      t.expect(await t.call(handle, 'verifyCheckpoint', [session, id]), () =>
        handle.model.verifyCheckpoint(session, id),
      )
    },
  },

  verifySession: {
    weight: 1,
    make: (random) => ({ session: anySession(random), abort: anyAbort(random, 0.2) }),
    async run(t, { on, session, abort }) {
      const handle = t.handle(on)
      const answer = await callWatched(t, handle, 'verifySession', [session], {}, abort)
      if (answer.code !== 'ABORT_ERR') t.expect(answer, () => handle.model.verifySession(session))
    },
  },

  diffCheckpoints: {
    weight: 3,
    make: (random) => ({
      sessions: [anySession(random), anySession(random)],
      picks: [anyPick(random), anyPick(random)],
      asText: [random.chance(0.5), random.chance(0.5)],
    }),
    async run(t, { on, sessions, picks, asText }) {
      const handle = t.handle(on)
      const references = sessions.map((sessionId, at) => ({
        sessionId,
        checkpointId: t.checkpointId(handle, sessionId, picks[at]),
      }))
      const written = references.map((each, at) => (asText[at] ? `${each.sessionId}/${each.checkpointId}` : each))
      const answer = await t.call(handle, 'diffCheckpoints', written)
      t.expect(answer, () => handle.model.diffCheckpoints(...references))
    },
  },

  labelCheckpoint: {
    weight: 6,
    make: (random) => ({
      session: anySession(random),
      pick: anyPick(random),
      label: random.chance(0.2) ? null : random.pick(LABELS),
      unique: random.chance(0.4),
    }),
    async run(t, { on, session, pick, label, unique }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      const options = unique ? [{ unique }] : []
      const answer = await t.call(handle, 'labelCheckpoint', [session, id, label, ...options])
      t.expectWrite(handle, session, answer, () => handle.model.labelCheckpoint(session, id, label, { unique }))
    },
  },

  getCheckpointByLabel: {
    weight: 2,
    make: (random) => ({ session: anySession(random), label: random.pick(LABELS) }),
    async run(t, { on, session, label }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'getCheckpointByLabel', [session, label])
      t.expect(answer, () => handle.model.getCheckpointByLabel(session, label))
    },
  },

  pinCheckpoint: {
    weight: 3,
    make: (random) => ({ session: anySession(random), pick: anyPick(random) }),
    async run(t, { on, session, pick }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      const answer = await t.call(handle, 'pinCheckpoint', [session, id])
      t.expectWrite(handle, session, answer, () => handle.model.pinCheckpoint(session, id, true))
    },
  },

  unpinCheckpoint: {
    weight: 2,
    make: (random) => ({ session: anySession(random), pick: anyPick(random) }),
    async run(t, { on, session, pick }) {
      const handle = t.handle(on)
      const id = t.checkpointId(handle, session, pick)
      const answer = await t.call(handle, 'unpinCheckpoint', [session, id])
      t.expectWrite(handle, session, answer, () => handle.model.pinCheckpoint(session, id, false))
    },
  },

  setRetention: {
    weight: 2,
    make: (random) => ({ session: anySession(random), retention: random.chance(0.3) ? null : anyRetention(random) }),
    async run(t, { on, session, retention }) {
      const handle = t.handle(on)
      const answer = await t.call(handle, 'setRetention', [session, retention])
      t.expectWrite(handle, session, answer, () => handle.model.setRetention(session, retention, answer))
    },
  },

  getRetention: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'getRetention', [session]), () => handle.model.getRetention(session))
    },
  },

  prune: {
    weight: 3,
    make: (random) => ({
      session: maybe(random, 0.6, () => anySession(random)),
      options: maybe(random, 0.8, () => ({
        dryRun: maybe(random, 0.4, () => true),
        retention: maybe(random, 0.6, () => anyRetention(random)),
      })),
      abort: anyAbort(random, 0.15),
    }),
    async run(t, { on, session, options, abort }) {
      const handle = t.handle(on)
      const wanted = expanded(t, options ?? {})
      await sleep(MOMENT_MS)
      const args = session === undefined ? [] : [session]
      if (abort !== undefined) {
        // What an aborted one has done stays done; another finishes it.
        const answer = await callWatched(t, handle, 'prune', args, { ...wanted, dryRun: true }, abort)
        if (answer.code === 'ABORT_ERR') return
        t.expect(answer, () => handle.model.prune(session, { ...wanted, dryRun: true }, answer))
        return
      }
      const answer = await callWatched(t, handle, 'prune', args, wanted)
      t.expectWrite(handle, session, answer, () => handle.model.prune(session, wanted, answer))
    },
  },

  convert: {
    weight: 5,
    make: (random) => ({
      session: anySession(random),
      encoding: random.chance(0.4) ? 'delta' : random.pick(ENCODINGS),
      abort: anyAbort(random, 0.4),
    }),
    async run(t, { on, session, encoding, abort }) {
      const handle = t.handle(on)
      const answer = await callWatched(t, handle, 'convert', [session, encoding], {}, abort)
      if (abort === 0) return
      t.expectWrite(handle, session, answer, () => handle.model.convert(session, encoding, answer))
      if (answer.code === 'ABORT_ERR') await settleEncodings(t, handle, session)
      if (!answer.value) return
      const stats = await t.call(handle, 'getSessionStorageStats', [session])
      t.expect(stats, () => ({
        ...handle.model.getSessionStorageStats(session),
        totalSizeBytes: answer.value.bytesAfter,
      }))
    },
  },

  forkSession: {
    weight: 3,
    make: (random) => ({
      session: anySession(random),
      pick: anyPick(random),
      as: random.weighted({ f0: 5, f1: 5, s2: 2, s0: 1 }),
      reset: anyReset(random),
    }),
    async run(t, { on, session, pick, as, reset }) {
      const handle = t.handle(on)
      const checkpointId = t.checkpointId(handle, session, pick)
      const options = { sessionId: session, checkpointId, newSessionId: as, ...expanded(t, reset) }
      const calledAt = Date.now()
      const answer = await t.call(handle, 'forkSession', [options])
      t.expectWrite(handle, as, answer, () => handle.model.forkSession(options, answer, calledAt))
      if (answer.value) await settleEncodings(t, handle, as)
    },
  },

  history: {
    weight: 2,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'history', [session]), () => handle.model.history(session))
    },
  },

  exportSession: {
    weight: 3,
    make: (random) => ({ session: anySession(random), file: random.between(0, 3), abort: anyAbort(random, 0.3) }),
    async run(t, { on, session, file, abort }) {
      const handle = t.handle(on)
      const path = t.file(file)
      const isThere = t.exports.has(path)
      const answer = await callWatched(t, handle, 'exportSession', [session, path], {}, abort)
      if (answer.code === 'ABORT_ERR') {
        t.demand(existsSync(path) === isThere, 'an aborted export left a file')
        return
      }
      t.expect(answer, () => {
        const codes = isThere ? ['WAYMARK_EXISTS'] : []
        if (!handle.model.hasContent(session)) codes.push('WAYMARK_NOT_FOUND')
        if (codes.length > 0) throw new Refusal(codes)
        const { expected, content } = handle.model.exportSession(session, path)
        t.exports.set(path, content)
        return expected
      })
      t.demand(existsSync(path) === t.exports.has(path), `${path} ${t.exports.has(path) ? 'is missing' : 'exists'}`)
    },
  },

  importSession: {
    weight: 3,
    make: (random) => ({
      file: random.between(0, 3),
      as: maybe(random, 0.7, () => random.pick(SESSIONS)),
      abort: anyAbort(random, 0.2),
    }),
    async run(t, { on, file, as, abort }) {
      const handle = t.handle(on)
      const path = t.file(file)
      const content = t.exports.get(path)
      const answer = await callWatched(t, handle, 'importSession', [path], as ? { as } : {}, abort)
      const expected = () => {
        if (!content) throw new Refusal(['WAYMARK_IO'])
        return handle.model.importSession(content, as, answer)
      }
      if (answer.code === 'ABORT_ERR') {
        const session = as ?? content?.sessionId
        if (session) t.expect(await t.call(handle, 'sessionInfo', [session]), () => handle.model.sessionInfo(session))
        return
      }
      t.expectWrite(handle, as ?? content?.sessionId, answer, expected)
    },
  },

  copyTo: {
    weight: 4,
    make: (random) => ({
      session: maybe(random, 0.6, () => anySession(random)),
      isBack: random.chance(0.4),
      abort: anyAbort(random, 0.3),
    }),
    async run(t, { on, session, isBack, abort }) {
      const [from, to] = isBack ? [t.handles.at(-1), t.handle(on, 0)] : [t.handle(on, 0), t.handles.at(-1)]
      // A copy of several sessions ends at the first that it may not write to: copy such a one alone.
      const refused = from.model.copiedSessions(session).find((id) => to.model.leaseRefusals(id).length > 0)
      const only = refused ?? session
      const options = only === undefined ? {} : { sessionId: only }
      if (abort !== undefined) {
        const aborted = await callWatched(t, from, 'copyTo', [to], options, abort)
        if (abort === 0) return
        // What an aborted copy has done stays done and is whole; the next one goes on from there.
        for (const id of from.model.copiedSessions(only)) {
          const verified = await t.call(to, 'verifySession', [id])
          t.demand(
            verified.value?.whole,
            `session ${id} is not whole after a copy with the outcome ${aborted.code ?? 'done'}`,
          )
        }
        const answer = await callWatched(t, from, 'copyTo', [to], options)
        t.expectWrite(to, only, answer, () => {
          const { checkpoints: _, ...expected } = from.model.copyTo(to.model, only, answer)
          return { ...expected, checkpoints: matching('a number', (value) => value >= 0) }
        })
      } else {
        const answer = await callWatched(t, from, 'copyTo', [to], options)
        t.expectWrite(to, only, answer, () => from.model.copyTo(to.model, only, answer))
      }
      for (const id of from.model.copiedSessions(only)) {
        for (const { id: checkpointId } of to.model.labelsInDoubt(id)) {
          const { value } = await t.call(to, 'getCheckpoint', [id, checkpointId])
          to.model.learnLabel(id, checkpointId, value?.label)
        }
        await settleEncodings(t, to, id)
      }
    },
  },

  expireSessions: {
    weight: 2,
    make: (random) => ({
      now: random.pick([EARLY - 2, EARLY - 1, EARLY, EARLY + 1, 'clock', 'date']),
      action: maybe(random, 0.6, () => random.pick(['archive', 'archive', 'delete'])),
    }),
    async run(t, { on, now, action }) {
      const handle = t.handle(on)
      const time = { clock: undefined, date: new Date(EARLY) }
      const given = now in time ? time[now] : now
      const args = action ? [given, { action }] : [given]
      const answer = await t.call(handle, 'expireSessions', args)
      const at = now === 'clock' ? Date.now() : Number(given)
      t.expect(answer, () => handle.model.expireSessions(at, { action }))
      t.mayLearnOfLostLeases(handle)
    },
  },

  listAgents: {
    weight: 1,
    make: (random) => ({ session: anySession(random) }),
    async run(t, { on, session }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'listAgents', [session]), () => handle.model.listAgents(session))
    },
  },

  agentSave: {
    weight: 8,
    make: (random) => ({
      session: anySession(random),
      agent: random.pick(AGENTS),
      state: {
        iteration: maybe(random, 0.8, () => random.between(0, 4)),
        messages: maybe(random, 0.6, () =>
          Array.from({ length: random.between(0, 3) }, (_, at) => ({ role: 'user', content: { text: [at, 300] } })),
        ),
        toolCalls: maybe(random, 0.3, () => [{ toolName: 'search', arguments: {}, success: true }]),
        status: maybe(random, 0.4, () => random.pick(AGENT_STATUSES)),
        statusReason: maybe(random, 0.1, () => 'because'),
        label: maybe(random, 0.2, () => random.pick(LABELS)),
        tokensUsed: maybe(random, 0.2, () => random.between(0, 99)),
        costEstimate: maybe(random, 0.2, () => random.next()),
        ttlMs: maybe(random, 0.2, () => random.pick([1, LONG_TTL_MS])),
        id: maybe(random, 0.1, () => 'mine'),
        own: maybe(random, 0.3, () => [random.between(0, 9)]),
      },
      bytes: maybe(random, 0.2, () => [random.between(0, 255), 0, 255]),
      options: maybe(random, 0.5, () => anyEncoding(random)),
    }),
    async run(t, { on, session, agent, state, bytes, options }) {
      const handle = t.handle(on)
      const given = expanded(t, state)
      if (bytes) given.context = new Uint8Array(bytes)
      await t.beforeNew(handle, session)
      const calledAt = Date.now()
      const answer = await t.callAgent(handle, session, agent, 'save', options ? [given, options] : [given])
      t.expectWrite(handle, session, answer, () =>
        handle.model.agentSave(session, agent, given, options, answer, calledAt),
      )
      await settleNew(t, handle, session)
      if (state.ttlMs === 1) await sleep(MOMENT_MS)
    },
  },

  agentRead: {
    weight: 5,
    make: (random) => ({
      session: anySession(random),
      agent: random.pick(AGENTS),
      method: random.pick(['latest', 'get', 'list', 'info', 'has', 'verify']),
      pick: anyPick(random),
      order: maybe(random, 0.5, () => random.pick(['newest', 'iteration'])),
      limit: random.between(0, 3),
    }),
    async run(t, { on, session, agent, method, pick, order, limit }) {
      const handle = t.handle(on)
      const { model } = handle
      const call = (...args) => t.callAgent(handle, session, agent, method, args)
      const id = t.pickFrom(model.agentCheckpointsOf(session, agent), pick)
      const options = order ? { order } : {}
      if (method === 'latest') t.expect(await call(), () => model.agentLatest(session, agent))
      else if (method === 'has') t.expect(await call(), () => model.agentHas(session, agent))
      else if (method === 'get') t.expect(await call(id), () => model.agentGet(session, agent, id))
      else if (method === 'verify') t.expect(await call(id), () => model.agentVerify(session, agent, id))
      else {
        const answer = await allPages(t, (paging) => call({ ...options, ...paging }), limit)
        t.expect(answer, () => model.agentList(session, agent, options, method === 'info'))
      }
    },
  },

  agentRemove: {
    weight: 3,
    make: (random) => ({
      session: anySession(random),
      agent: random.pick(AGENTS),
      method: random.weighted({ prune: 3, delete: 3, clear: 1 }),
      pick: anyPick(random),
      keep: random.between(0, 3),
    }),
    async run(t, { on, session, agent, method, pick, keep }) {
      const handle = t.handle(on)
      const { model } = handle
      const id = t.pickFrom(model.agentCheckpointsOf(session, agent), pick)
      const args = { prune: [keep], delete: [id], clear: [] }[method]
      const answer = await t.callAgent(handle, session, agent, method, args)
      t.expectWrite(handle, session, answer, () => {
        if (method === 'prune') return model.agentPrune(session, agent, keep, answer)
        if (method === 'delete') return model.agentDelete(session, agent, id, answer)
        return model.agentClear(session, agent, answer)
      })
    },
  },

  acquireSession: {
    weight: 1.5,
    make: (random) => ({ session: anySession(random), force: random.chance(0.4) }),
    async run(t, { on, session, force }) {
      const handle = t.handle(on)
      const options = { owner: `owner of ${handle.name}`, ttlMs: LONG_TTL_MS, ...(force && { force }) }
      const answer = await t.call(handle, 'acquireSession', [session, options])
      t.expect(t.withLease(handle, answer), () => handle.model.acquireSession(session, options, answer))
    },
  },

  acquireNext: {
    weight: 0.7,
    make: (random) => ({ status: maybe(random, 0.5, () => random.pick(['paused', ['active', 'completed']])) }),
    async run(t, { on, status }) {
      const handle = t.handle(on)
      const options = { owner: `owner of ${handle.name}`, ttlMs: LONG_TTL_MS, ...(status && { status }) }
      const answer = await t.call(handle, 'acquireNext', [options])
      t.expect(t.withLease(handle, answer), () => handle.model.acquireNext(options, answer))
    },
  },

  useLease: {
    weight: 5,
    make: (random) => ({ pick: random.next(), action: random.weighted({ renew: 2, release: 4, dispose: 1, look: 1 }) }),
    async run(t, { pick, action }) {
      const lease = t.leases[Math.floor(pick * t.leases.length)]
      if (!lease) return
      if (action === 'look') t.checkLease(lease)
      else if (action === 'renew') await t.renewLease(lease)
      else await t.releaseLease(lease, action === 'dispose')
    },
  },

  autoCheckpoint: {
    weight: 2,
    make: (random) => ({
      session: anySession(random),
      state: anyState(random),
      label: maybe(random, 0.2, () => random.pick(LABELS)),
      events: Array.from({ length: random.between(0, 4) }, () =>
        random.pick(['tool_call', 'model_response', 'iteration', 'error', 'timer', 'now']),
      ),
      isAsync: random.chance(0.3),
    }),
    async run(t, { on, session, state, label, events, isAsync }) {
      const handle = t.handle(on)
      if (handle.model.leaseRefusals(session).length > 0) return
      const document = sessionOf(t, handle, { session, state })
      const { policy, isDue } = t.policy()
      const captured = { session: document, contextStore: { plan: 1 } }
      const given = {
        sessionId: session,
        policy,
        capture: isAsync ? async () => captured : () => captured,
        options: { ...(label && { label }) },
      }
      const auto = t.callNow(handle, 'autoCheckpoint', [given])
      t.demand(!auto.isStopped && auto.taken === 0 && auto.last === undefined, 'a new AutoCheckpoint is not new')
      let taken = 0
      const expectTaken = (answer, calledAt, options) => {
        taken += 1
        const all = { trigger: 'auto', includeContext: true, ...given.options, ...options }
        t.expectWrite(handle, session, answer, () =>
          handle.model.createCheckpoint({ ...captured, options: all }, answer, calledAt),
        )
        t.demand(auto.taken === taken, `taken is ${auto.taken}, not ${taken}`)
        t.demand(auto.last?.checkpointId === answer.value?.checkpointId, 'last is not the last checkpoint')
      }
      const call = (method, ...args) => t.log.call('AutoCheckpoint', 'auto', auto, method, args)
      for (const [at, event] of events.entries()) {
        await t.beforeNew(handle, session)
        const calledAt = Date.now()
        const answer = event === 'now' ? await call('now', { trigger: 'manual' }) : await call('notify', event, at)
        if (event === 'now') expectTaken(answer, calledAt, { trigger: 'manual' })
        else if (isDue(event, at)) expectTaken(answer, calledAt, {})
        else t.expect(answer, () => undefined)
        await settleNew(t, handle, session)
      }
      await t.beforeNew(handle, session)
      const calledAt = Date.now()
      if (isAsync) {
        await call(t.asyncDispose)
        expectTaken({ value: auto.last }, calledAt, {})
      } else {
        expectTaken(await call('stop'), calledAt, {})
      }
      await settleNew(t, handle, session)
      t.demand(auto.isStopped, 'a stopped AutoCheckpoint is not stopped')
      t.expect(await call('now'), refusedArgument(['WAYMARK_CLOSED']))
      for (const member of ['last', 'taken', 'isStopped']) t.log.used.add(`AutoCheckpoint.${member}`)
    },
  },

  reopen: {
    weight: 2,
    make: (random) => ({ how: random.pick(['same', 'dispose', 'new', 'new']), encoding: random.pick(ENCODINGS) }),
    async run(t, { on, how, encoding }) {
      const handle = t.handle(on)
      await t.reopen(handle, how, encoding)
    },
  },

  initializeAgain: {
    weight: 0.5,
    make: () => ({}),
    async run(t, { on }) {
      const handle = t.handle(on)
      t.expect(await t.call(handle, 'initialize'), () => undefined)
      t.demand(t.callNow(handle, 'getBaseDir', []) === handle.baseDir, 'getBaseDir() changed')
    },
  },

  invalidCall: {
    weight: 2,
    make: (random) => ({ session: anySession(random), which: random.between(0, INVALID_CALLS.length - 1) }),
    async run(t, { on, session, which }) {
      const handle = t.handle(on)
      const [method, args, code] = INVALID_CALLS[which](session)
      t.expect(await t.call(handle, method, args), refusedArgument([code]))
    },
  },
}

/** Calls that are refused whatever is stored, and must change nothing. */
const INVALID_CALLS = [
  () => ['saveSession', [{ id: '../up', taskTree: {} }], 'WAYMARK_INVALID_ID'],
  () => ['loadSession', [''], 'WAYMARK_INVALID_ID'],
  () => ['deleteSession', ['..'], 'WAYMARK_INVALID_ID'],
  (id) => [
    'createCheckpoint',
    [{ id, taskTree: {}, checkpointIds: [] }, { trigger: 'never' }],
    'WAYMARK_INVALID_ARGUMENT',
  ],
  (id) => [
    'createCheckpoint',
    [
      { id, taskTree: {}, checkpointIds: [] },
      { trigger: 'auto', encoding: 'bzip2' },
    ],
    'WAYMARK_INVALID_ARGUMENT',
  ],
  (id) => [
    'createCheckpoint',
    [{ id, taskTree: {}, checkpointIds: [], n: 1n }, { trigger: 'auto' }],
    'WAYMARK_NOT_SERIALIZABLE',
  ],
  (id) => ['saveTaskResult', [id, 'a/b', 1], 'WAYMARK_INVALID_ID'],
  (id) => ['saveTaskResult', [id, 't0', { n: 1n }], 'WAYMARK_NOT_SERIALIZABLE'],
  (id) => ['convert', [id, 'bzip2'], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['setRetention', [id, { keepLast: 0 }], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['setRetention', [id, { keepFirst: 1 }], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['listCheckpointInfo', [id, { limit: -1 }], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['listCheckpointInfo', [id, { cursor: 'x' }], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['labelCheckpoint', [id, 'cp-none', ''], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['diffCheckpoints', [id, id], 'WAYMARK_INVALID_ARGUMENT'],
  () => ['restoreCheckpoint', [{}], 'WAYMARK_INVALID_ARGUMENT'],
  () => ['expireSessions', ['now'], 'WAYMARK_INVALID_ARGUMENT'],
  (id) => ['acquireSession', [id, { ttlMs: 1 }], 'WAYMARK_INVALID_ARGUMENT'],
]

/** Every policy, with what it must say. */
export function everyPolicy(log) {
  const use = (name, ...args) => {
    log.used.add(`CheckpointPolicy.static ${name}`)
    return CheckpointPolicy[name](...args)
  }
  log.used.add('CheckpointPolicy.shouldCheckpoint')
  const on = (type) => (event) => event === type
  return [
    { policy: use('afterToolCall'), isDue: on('tool_call') },
    { policy: use('afterModelResponse'), isDue: on('model_response') },
    { policy: use('onError'), isDue: on('error') },
    { policy: use('never'), isDue: () => false },
    { policy: use('everyMs', 3_600_000), isDue: () => false },
    { policy: use('everyIterations', 2), isDue: (event, at) => event === 'iteration' && at > 0 && at % 2 === 0 },
    {
      policy: use('anyOf', CheckpointPolicy.onError(), CheckpointPolicy.afterToolCall()),
      isDue: (event) => event === 'error' || event === 'tool_call',
    },
  ]
}

export { isByAge, MOMENT_MS, sleep }
