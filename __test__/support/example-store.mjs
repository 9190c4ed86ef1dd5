// A realistic store with sessions of every kind, for tests of the command.

import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

import { makeAgent, makeSession, makeTask } from './sessions.mjs'
import { snapshotOf } from './snapshot.mjs'
import { CheckpointStore, OPTIONS, checkpointOf, openStore, backends, scratchDirectory } from './stores.mjs'

export const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

/** A label with control sequences: colour, cursor movement, title, bell. */
export const HOSTILE_LABEL = 'red \u001b[31malert\u001b[2A\u001b]0;owned\u0007 \u009b1m\r\nnext'

/** A label of wide letters and of combining marks. */
export const WIDE_LABEL = '夜間ビルド 🚀 e\u0301tape'

/** The ids of all sessions in the order of the store. */
export const SESSIONS = [
  'agents only',
  'broken',
  'migration',
  'nightly-build',
  'nightly-report',
  'owned',
  'tangled',
  'what-if',
  '夜間 🚀',
]

export const OWNER = 'worker-7 (pid 4711)'

const STATUSES = ['completed', 'completed', 'in_progress', 'failed', 'pending', 'blocked']

/** A root, its modules, their parts and their steps: 1 + 8 + 8 × 7 + 8 × 7 × 6 = 401 tasks on four levels. */
function deepTree(statusOf) {
  const tree = {}
  const grow = (id, parentId, depth, fanOut) => {
    const count = fanOut[0] ?? 0
    const children = Array.from({ length: count }, (_, at) => (depth === 0 ? `module-${at}` : `${id}.${at}`))
    const prompt = `Build ${id}: read the code, change as little as possible, and prove that it still works`
    tree[id] = makeTask(id, { parentId, depth, children, prompt })
    for (const child of children) grow(child, id, depth + 1, fanOut.slice(1))
  }
  grow('root', null, 0, [8, 7, 6])
  for (const [at, task] of Object.values(tree).entries()) task.status = statusOf(at)
  return tree
}

function metricsOf(tree) {
  const tasks = Object.values(tree)
  const count = (status) => tasks.filter((task) => task.status === status).length
  return {
    ...makeSession().metrics,
    totalTasks: tasks.length,
    completedTasks: count('completed'),
    failedTasks: count('failed'),
    pendingTasks: count('pending'),
    inProgressTasks: count('in_progress'),
    totalAgentsSpawned: 14,
    currentActiveAgents: 12,
    peakActiveAgents: 13,
  }
}

function sessionOf(id, taskTree, overrides = {}) {
  const [rootTaskId] = Object.keys(taskTree)
  return makeSession(id, { rootTaskId, taskTree, metrics: metricsOf(taskTree), ...overrides })
}

const ERRORS = [
  {
    timestamp: 1_700_000_100_000,
    taskId: 'module-3.1',
    code: 'E_TIMEOUT',
    message: 'module-3.1 did not answer within 3600 s',
    severity: 'error',
    recovered: true,
  },
  {
    timestamp: 1_700_000_100_001,
    agentId: 'agent-2',
    code: 'E_PAINT',
    message: `two\nlines and ${HOSTILE_LABEL}`,
    severity: 'critical',
    recovered: false,
  },
]

/** Creates checkpoints in sequence as an orchestrator does: each names its parent. */
async function checkpointed(store, session, all, agents = {}) {
  const ids = []
  for (const { after, change, ...options } of all) {
    session.lastCheckpointId = after === undefined ? (ids.at(-1) ?? null) : ids[after]
    change?.(session)
    session.metrics = metricsOf(session.taskTree)
    const made = await checkpointOf(store, session, { ...OPTIONS, ...options }, agents, { step: ids.length })
    ids.push(made.checkpointId)
  }
  session.lastCheckpointId = ids.at(-1)
  await store.saveSession(session)
  await store.saveTaskTree(session.id, session.taskTree)
  return ids
}

const done = (id) => (session) => {
  session.taskTree[id].status = 'completed'
  session.taskTree[id].result = { success: true, output: `${id} ✓` }
}

/** Hundreds of tasks, every encoding, labels, pins, agents, and a branch from an earlier checkpoint. */
async function nightlyBuild(store) {
  const tree = deepTree((at) => STATUSES[at % STATUSES.length])
  const session = sessionOf('nightly-build', tree, { name: 'Nightly build', errors: ERRORS })
  const agents = Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => [
      `agent-${at}`,
      { ...makeAgent(`agent-${at}`), currentTaskId: `module-3.${at}` },
    ]),
  )
  const checkpoints = [
    { encoding: 'json', label: 'before the refactoring', trigger: 'milestone', description: 'all of it, as it was' },
    { encoding: 'gzip', change: done('module-0'), trigger: 'auto' },
    { encoding: 'zstd', change: done('module-0.3'), label: 'green' },
    { encoding: 'delta', change: done('module-3.1'), trigger: 'auto' },
    { encoding: 'delta', change: done('module-3.2.1'), label: HOSTILE_LABEL, trigger: 'error' },
    { encoding: 'json', after: 2, change: done('module-4'), label: WIDE_LABEL },
    { encoding: 'gzip', change: done('module-5'), trigger: 'auto' },
    { encoding: 'json', change: done('module-6.1'), trigger: 'auto' },
  ]
  const ids = await checkpointed(store, session, checkpoints, agents)
  await store.pinCheckpoint('nightly-build', ids[0])
  await store.pinCheckpoint('nightly-build', ids[2])
  await store.saveTaskResult('nightly-build', 'module-0', { success: true, output: '✓' })
  const writer = store.agent('nightly-build', 'writer')
  await writer.save({ iteration: 1, messages: [{ role: 'user', content: 'Write' }], tokensUsed: 1200 })
  await writer.save({ iteration: 2, status: 'halted', statusReason: 'a loop' }, { encoding: 'gzip' })
  await store.agent('nightly-build', 'critic').save({ iteration: 7, status: 'completed' })
  await store.forkSession({ sessionId: 'nightly-build', checkpointId: ids[2], newSessionId: 'what-if' })
  return ids
}

/** Missing children, an orphan task, and a cycle. */
const tangledTree = () => ({
  root: makeTask('root', { children: ['a', 'gone', 'root'] }),
  a: makeTask('a', { parentId: 'root', depth: 1, children: ['b'] }),
  b: makeTask('b', { parentId: 'a', depth: 2, children: ['a', 'c'] }),
  c: makeTask('c', { parentId: 'b', depth: 3, children: ['a'], prompt: HOSTILE_LABEL }),
  orphan: makeTask('orphan', { parentId: 'unknown', depth: 4 }),
})

/** Inverts bits in the middle of a stored checkpoint. */
export function damage(path) {
  const bytes = readFileSync(path)
  const middle = bytes.length >> 1
  for (let at = middle; at < middle + 16; at += 1) bytes[at] ^= 0x55
  writeFileSync(path, bytes)
}

async function filledDirectory() {
  const directory = scratchDirectory()
  const store = await openStore(directory, { durability: 'relaxed' })
  const build = await nightlyBuild(store)

  const done30 = Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [`page-${at}`, makeTask(`page-${at}`, { status: 'completed' })]),
  )
  const report = await checkpointed(
    store,
    sessionOf('nightly-report', done30, { name: 'Nightly report', status: 'completed' }),
    [{ trigger: 'auto' }, { label: 'sent', encoding: 'zstd' }],
  )

  const halfFailed = deepTree((at) => (at % 2 === 0 ? 'completed' : 'failed'))
  const migration = await checkpointed(
    store,
    sessionOf('migration', halfFailed, { name: 'Migration of everything', status: 'failed', errors: ERRORS }),
    [{ trigger: 'manual' }, { trigger: 'error', encoding: 'gzip', description: HOSTILE_LABEL }],
  )

  const interrupted = { t: makeTask('t', { status: 'in_progress' }), u: makeTask('u', { status: 'failed' }) }
  const broken = await checkpointed(store, sessionOf('broken', interrupted), [
    { label: 'whole' },
    { encoding: 'gzip', change: done('t') },
    { label: 'damaged', change: done('u') },
  ])
  damage(join(directory, 'broken', 'checkpoints', `${broken[2]}.json`))

  const owned = await checkpointed(store, sessionOf('owned', { t: makeTask('t') }), [{}, {}])
  const tangled = await checkpointed(store, sessionOf('tangled', tangledTree(), { name: HOSTILE_LABEL }), [{}])
  const wide = await checkpointed(
    store,
    sessionOf('夜間 🚀', { t: makeTask('t') }, { name: WIDE_LABEL, status: 'paused' }),
    [{ label: '朝' }],
  )
  await store.agent('agents only', 'lonely').save({ iteration: 1 })
  await store.close()
  return { directory, ids: { build, report, migration, broken, owned, tangled, wide } }
}

/** Leaves a lease of session `owned`, as a process that ended without releasing it. */
async function own(location) {
  const store = await openStore(location)
  await store.acquireSession('owned', { owner: OWNER, ttlMs: 86_400_000 })
}

/** The example store on a backend: its `location`, and the `ids` of its checkpoints, oldest first. */
export async function exampleStore(backend = 'files') {
  const { directory, ids } = await filledDirectory()
  if (backend === 'files') {
    await own(directory)
    return { location: directory, ids }
  }
  const location = backends[backend]()
  const from = new CheckpointStore(directory)
  const to = new CheckpointStore(location)
  await Promise.all([from.initialize(), to.initialize()])
  await from.copyTo(to)
  await Promise.all([from.close(), to.close()])
  await own(location)
  return { location, ids }
}

/** A copy of a store on files, for a test that changes it. */
export function copyOfStore(location) {
  const copy = join(scratchDirectory(), basename(location))
  cpSync(location, copy, { recursive: true, verbatimSymlinks: true })
  return copy
}

/** Everything in a store on files, without lock files. */
export function contentsOfStore(location) {
  const { '.leases/': leases, ...sessions } = snapshotOf(location)
  const owners = Object.entries(leases ?? {}).filter(([name]) => !name.startsWith('.lock'))
  return { ...sessions, owners: Object.fromEntries(owners) }
}
