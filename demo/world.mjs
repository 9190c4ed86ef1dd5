// The simulated session: a task tree, agents, and results.

const AGENTS = 12
const MODULES = 10
const TASKS_PER_MODULE = 30
const ROLES = ['analysis', 'implementation', 'testing', 'documentation']
const WORDS = 'parser cache retry schema module policy logging units error handling tests public agent verify'.split(
  ' ',
)

export function newAgents() {
  const agents = Array.from({ length: AGENTS }, (_, index) =>
    newAgent(`agent-${index + 1}`, ROLES[index % ROLES.length]),
  )
  return Object.fromEntries(agents.map((agent) => [agent.id, agent]))
}

function newAgent(id, role) {
  return {
    id,
    role,
    workFolder: '/srv/service',
    priority: 'medium',
    maxRetries: 3,
    timeoutMs: 60_000,
    createdAt: Date.now(),
    state: 'idle',
    completedTasks: 0,
    failedTasks: 0,
    totalExecutionTimeMs: 0,
    lastActivityAt: Date.now(),
  }
}

export function newSession(id) {
  return {
    id,
    name: 'The demonstration',
    status: 'active',
    rootTaskId: 'root',
    taskTree: newTaskTree(),
    lastCheckpointId: null,
    checkpointIds: [],
    autoCheckpointIntervalMs: 250,
    config: {},
    createdAt: Date.now(),
    expiresAt: Date.now() + 86_400_000,
    metrics: {},
    errors: [],
  }
}

function newTaskTree() {
  const moduleIds = Array.from({ length: MODULES }, (_, index) => `module-${index + 1}`)
  const tree = { root: newTask('root', null, 0, moduleIds) }
  for (const moduleId of moduleIds) {
    const ids = Array.from({ length: TASKS_PER_MODULE - 1 }, (_, index) => `${moduleId}.${index + 1}`)
    tree[moduleId] = newTask(moduleId, 'root', 1, ids)
    for (const id of ids) tree[id] = newTask(id, moduleId, 2, [])
  }
  return tree
}

function newTask(id, parentId, depth, children) {
  return {
    id,
    parentId,
    depth,
    children,
    prompt: `Work on ${id}: ${words(40)}`,
    role: ROLES[depth % ROLES.length],
    workFolder: '/srv/service',
    returnMode: 'summary',
    dependencies: [],
    status: 'pending',
    priority: 'medium',
    retryCount: 0,
    maxRetries: 3,
    createdAt: Date.now(),
    tags: ['demo'],
  }
}

export function newResult(task) {
  const metrics = { executionTimeMs: Date.now() - task.startedAt }
  return { success: true, output: words(60), summary: `${task.id} is done`, metrics }
}

function words(count) {
  return Array.from({ length: count }, () => WORDS[Math.floor(Math.random() * WORDS.length)]).join(' ')
}
