// Sessions, task trees and agents.

/** The statuses of a session in use, and those of one at rest that can expire. */
export const ACTIVE_STATUSES = ['initializing', 'active', 'resuming', 'completing']
export const RESTING_STATUSES = ['paused', 'completed', 'failed']

export function makeTask(id, overrides = {}) {
  return {
    id,
    parentId: null,
    depth: 0,
    children: [],
    prompt: `Do ${id}`,
    role: 'implementation',
    workFolder: '/srv/repo',
    returnMode: 'summary',
    dependencies: [],
    status: 'pending',
    priority: 'medium',
    retryCount: 0,
    maxRetries: 3,
    createdAt: 1_700_000_000_000,
    tags: ['auto'],
    ...overrides,
  }
}

export function makeTree(count = 3, overrides = {}) {
  const ids = Array.from({ length: count }, (_, index) => `task-${index}`)
  return Object.fromEntries(ids.map((id) => [id, makeTask(id, overrides)]))
}

export function makeAgent(id) {
  return {
    id,
    role: 'testing',
    workFolder: '/srv/repo',
    priority: 'low',
    maxRetries: 1,
    timeoutMs: 1000,
    createdAt: 1,
    state: 'running',
    completedTasks: 0,
    failedTasks: 0,
    totalExecutionTimeMs: 0,
    lastActivityAt: 2,
  }
}

export function makeSession(id = 'session-1', overrides = {}) {
  return {
    id,
    name: 'A session',
    description: 'for a test',
    status: 'active',
    rootTaskId: 'task-0',
    taskTree: makeTree(),
    lastCheckpointId: null,
    checkpointIds: [],
    autoCheckpointIntervalMs: 300_000,
    config: {
      maxConcurrentAgents: 10,
      maxTaskDepth: 5,
      agentTimeoutMs: 3_600_000,
      sessionTimeoutMs: 604_800_000,
      enableJudge: true,
      judgePassThreshold: 0.8,
      maxJudgeRetries: 2,
      checkpointIntervalMs: 300_000,
      checkpointDir: '~/.meshseeks/sessions',
      maxCheckpointsPerSession: 100,
      minAgents: 1,
      maxAgents: 100,
      scaleUpThreshold: 10,
      scaleDownThreshold: 60_000,
      maxConsecutiveFailures: 5,
      failureThresholdPercent: 30,
      maxTotalTasks: 1000,
      maxTasksPerLevel: 50,
    },
    createdAt: 1_700_000_000_000,
    startedAt: 1_700_000_000_001,
    expiresAt: 1_700_604_800_000,
    metrics: {
      totalTasks: 3,
      completedTasks: 0,
      failedTasks: 0,
      pendingTasks: 3,
      inProgressTasks: 0,
      totalAgentsSpawned: 0,
      currentActiveAgents: 0,
      peakActiveAgents: 0,
      totalExecutionTimeMs: 0,
      averageTaskDurationMs: 0,
      checkpointsTaken: 0,
      checkpointsRestored: 0,
      judgeVerifications: 0,
      judgeApprovals: 0,
      judgeRejections: 0,
      tasksPerDepth: { 0: 3 },
      tasksByStatus: { pending: 3 },
      tasksByRole: { implementation: 3 },
    },
    errors: [],
    ...overrides,
  }
}

/** A value after a round trip through JSON, as it is read back from a store. */
export function throughJson(value) {
  return JSON.parse(JSON.stringify(value))
}

export function withoutTree({ taskTree: _, ...session }) {
  return throughJson(session)
}
