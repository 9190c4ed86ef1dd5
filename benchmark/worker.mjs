// Runs one contender in a separate process, so that garbage or deoptimised code of one does not affect another.
// It runs one command at a time, and answers with milliseconds.

import { performance } from 'node:perf_hooks'

import { CONTENDERS } from './contenders/index.mjs'
import { HISTORIES } from './histories.mjs'
import { makeAgentState, makeState } from './states.mjs'

settleAllocator()
const [name, directory, options] = process.argv.slice(2)
const states = new Map()
const histories = new Map()
const saved = []
let contender

const commands = {
  async open() {
    contender = await CONTENDERS[name](directory, { keep: Infinity, ...JSON.parse(options) })
    return contender.version
  },

  /** Milliseconds until it is durable, and how long of that the event loop is blocked. */
  async save({ tasks, ascii, session = 'bench', compress }) {
    const state = stateOf(tasks, ascii)
    const started = performance.now()
    const saving = contender.save(session, state, { compress })
    const heldMs = performance.now() - started
    await saving
    return { ms: performance.now() - started, heldMs }
  },

  /** The next state of a history. Its last checkpoint id is not the one that the store assigned. */
  async saveNext({ history }) {
    if (!histories.has(history)) histories.set(history, HISTORIES[history]())
    const state = histories.get(history)()
    const started = performance.now()
    const saving = contender.save('bench', state)
    const heldMs = performance.now() - started
    const made = await saving
    const ms = performance.now() - started
    saved.push(made?.checkpointId)
    return { ms, offThreadMs: ms - heldMs, jsonBytes: JSON.stringify(state).length }
  },

  /** Restores the checkpoint of that number. */
  async restoreOne({ number }) {
    return timed(async () => {
      const restored = await contender.store.restoreCheckpoint('bench', saved[number], { validateChecksum: true })
      if (!restored.success) throw new Error(restored.error)
    })
  },

  async saveAgent({ messages }) {
    const state = stateOf(messages, true, makeAgentState)
    const { ms } = await timed(() => contender.saveAgent('bench', state))
    return { ms }
  },

  async sessionsInfo() {
    let total
    const { ms } = await timed(async () => ({ length: total } = await contender.store.sessionsInfo()))
    return { ms, total }
  },

  /** Creates sessions with the same number of checkpoints each. */
  async populate({ sessions, checkpoints }) {
    const state = stateOf(1)
    for (let session = 0; session < sessions; session += 1) {
      const saves = Array.from({ length: checkpoints }, () => contender.save(`session-${session}`, state))
      await Promise.all([...saves, contender.store.saveSession({ ...state.session, id: `session-${session}` })])
    }
  },

  async fill({ count, tasks, compress, session = 'bench' }) {
    for (let made = 0; made < count; made += 1) await contender.save(session, stateOf(tasks), { compress })
  },

  async saveSession({ tasks, session }) {
    const made = await contender.store.saveSession({ ...stateOf(tasks).session, id: session })
    if (!made.success) throw new Error(made.error)
  },

  /** Several sessions save at once. */
  async burst({ tasks, sessions }) {
    const state = stateOf(tasks)
    const started = performance.now()
    await Promise.all(Array.from({ length: sessions }, (_, number) => contender.save(`session-${number}`, state)))
    return { ms: performance.now() - started }
  },

  /** Several sessions at once, each of which saves repeatedly. */
  writers({ tasks, writers, times }) {
    const state = stateOf(tasks)
    return atOnce(writers, times, (session) => contender.save(session, state))
  },

  /** Several readers of the newest checkpoints of those sessions. */
  readers({ readers, times }) {
    return atOnce(readers, times, (session) => contender.latest(session))
  },

  async stringify({ tasks, ascii }) {
    const state = stateOf(tasks, ascii)
    const started = performance.now()
    JSON.stringify(state)
    return { ms: performance.now() - started }
  },

  latest: () => timed(() => contender.latest('bench')),

  restore({ tasks, atHand }) {
    const state = stateOf(tasks)
    const { taskTree, ...session } = state.session
    const texts = atHand && { session: JSON.stringify(session), taskTree: JSON.stringify(taskTree) }
    return timed(() => contender.restore('bench', state, texts))
  },

  async list() {
    let total
    const { ms } = await timed(async () => ({ total } = await contender.list('bench')))
    return { ms, total }
  },

  async listInfo({ session = 'bench', limit } = {}) {
    let page
    const { ms } = await timed(async () => (page = await contender.listInfo(session, { limit })))
    const { checkpoints, total, damaged } = page
    return { ms, total, shown: checkpoints.length, damaged: damaged.length }
  },

  async isIntact({ tasks, session: sessionId = 'bench' }) {
    const { session, agentStates } = stateOf(tasks)
    const stored = await contender.latest(sessionId)
    const tree = stored.taskTree ?? stored.session.taskTree
    return JSON.stringify([tree, stored.agentStates]) === JSON.stringify([session.taskTree, agentStates])
  },

  close: () => contender.close(),
}

process.on('message', async ({ command, ...details }) => {
  try {
    process.send({ answer: await commands[command](details) })
  } catch (error) {
    process.send({ error: error.message })
  }
})

/**
 * The C library returns large blocks to the system, and pays for fresh pages the next time, until it has seen one of
 * that size freed. A long-running process is past that; a new one may or may not be.
 */
function settleAllocator() {
  for (let round = 0; round < 2; round += 1) {
    Buffer.allocUnsafe(24 << 20)
    globalThis.gc()
  }
}

function stateOf(size, ascii = true, make = makeState) {
  const key = `${make.name} ${size} ${ascii}`
  if (!states.has(key)) states.set(key, make(size, { ascii }))
  return states.get(key)
}

/** The throughput of several at once, and the latency of each call. */
async function atOnce(count, times, work) {
  const waits = []
  const one = async (session) => {
    for (let time = 0; time < times; time += 1) waits.push((await timed(() => work(session))).ms)
  }
  const { ms } = await timed(() => Promise.all(Array.from({ length: count }, (_, number) => one(`at-once-${number}`))))
  waits.sort((a, b) => a - b)
  const within = (share) => waits[Math.round(share * (waits.length - 1))]
  return { perSecond: (waits.length * 1000) / ms, median: within(0.5), most: within(0.95) }
}

async function timed(work) {
  const started = performance.now()
  await work()
  return { ms: performance.now() - started }
}
