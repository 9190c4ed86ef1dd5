// States of a realistic shape and size, the same ones every time.

const WORDS =
  'refactor the parser into smaller modules with structured logging retry policy cache invalidation schema migration units verify stable public api error handling tests'.split(
    ' ',
  )
const ROLES = ['analysis', 'implementation', 'testing', 'documentation', 'debugging', 'planner']

/** A session with `count` tasks (about 1.2 KB of JSON each), its agents and its context. */
export function makeState(count, { ascii = true } = {}) {
  const random = newRandom(count)
  const words = (length) => {
    const text = Array.from({ length }, () => WORDS[random(WORDS.length)]).join(' ')
    return ascii ? text : `${text} — 検査 ✓`
  }
  const tasks = Array.from({ length: count }, (_, index) => makeTask(index, random, words))
  const agents = Array.from({ length: Math.max(2, Math.floor(count / 20)) }, (_, index) => makeAgent(index))
  return {
    session: makeSession(Object.fromEntries(tasks.map((task) => [task.id, task]))),
    agentStates: Object.fromEntries(agents.map((agent) => [agent.id, agent])),
    contextStore: { plan: words(60), decisions: Array.from({ length: 10 }, () => words(12)) },
  }
}

function makeTask(index, random, words) {
  const isDone = random(3) > 0
  return {
    id: `task-${index}`,
    parentId: index === 0 ? null : `task-${Math.floor(index / 10)}`,
    depth: Math.floor(Math.log10(index + 1)),
    children: [],
    prompt: words(45),
    role: ROLES[index % ROLES.length],
    workFolder: '/srv/repo/packages/core',
    returnMode: 'summary',
    dependencies: index > 1 ? [`task-${index - 1}`] : [],
    status: isDone ? 'completed' : 'pending',
    priority: 'medium',
    retryCount: 0,
    maxRetries: 3,
    createdAt: 1_700_000_000_000 + index,
    tags: ['auto', 'swarm'],
    metadata: { attempt: 1, score: random(1_000_000) / 1_000_003 },
    ...(isDone && {
      startedAt: 1_700_000_001_000 + index,
      completedAt: 1_700_000_002_000 + index,
      result: {
        success: true,
        output: words(80),
        summary: words(12),
        metrics: { executionTimeMs: random(99_999), tokensUsed: random(99_999) },
      },
    }),
  }
}

function makeAgent(index) {
  return {
    id: `agent-${index}`,
    role: ROLES[index % ROLES.length],
    workFolder: '/srv/repo',
    priority: 'medium',
    maxRetries: 3,
    timeoutMs: 60_000,
    createdAt: 1,
    state: 'running',
    completedTasks: index,
    failedTasks: 0,
    totalExecutionTimeMs: index * 1000,
    lastActivityAt: 2,
  }
}

function makeSession(taskTree) {
  return {
    id: 'bench',
    name: 'Benchmark',
    status: 'active',
    rootTaskId: 'task-0',
    taskTree,
    lastCheckpointId: null,
    checkpointIds: [],
    autoCheckpointIntervalMs: 300_000,
    config: { maxConcurrentAgents: 100 },
    createdAt: 1_700_000_000_000,
    expiresAt: 1_700_604_800_000,
    metrics: { totalTasks: Object.keys(taskTree).length },
    errors: [],
  }
}

function newRandom(seed) {
  let state = seed + 1
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % limit
  }
}
