// Code as an orchestrator writes it against the original's types: it must compile unchanged but for the import.
// What follows the class is what it can do in addition.

import { AutoCheckpoint, CheckpointPolicy, CheckpointStore } from 'waymark'
import type {
  AutoCheckpointOptions,
  CapturedState,
  Checkpoint,
  CheckpointEvent,
  CheckpointOptions,
  CheckpointResult,
  HierarchicalTask,
  RestoreOptions,
  RestoreResult,
  SessionError,
  SessionMetrics,
  SessionStatus,
  SwarmAgentConfig,
  SwarmConfig,
  SwarmSession,
  TaskResult,
  TaskStatus,
  WaymarkError,
} from 'waymark'

const config: SwarmConfig = {
  maxConcurrentAgents: 10,
  maxTaskDepth: 5,
  agentTimeoutMs: 3600000,
  sessionTimeoutMs: 604800000,
  enableJudge: true,
  judgePassThreshold: 0.8,
  maxJudgeRetries: 2,
  checkpointIntervalMs: 300000,
  checkpointDir: '~/.meshseeks/sessions',
  maxCheckpointsPerSession: 5,
  minAgents: 1,
  maxAgents: 100,
  scaleUpThreshold: 10,
  scaleDownThreshold: 60000,
  maxConsecutiveFailures: 5,
  failureThresholdPercent: 30,
  maxTotalTasks: 1000,
  maxTasksPerLevel: 50,
}

const metrics: SessionMetrics = {
  totalTasks: 2,
  completedTasks: 1,
  failedTasks: 0,
  pendingTasks: 1,
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
  tasksPerDepth: { 0: 1, 1: 1 },
  tasksByStatus: { completed: 1, pending: 1 } as Record<string, number>,
  tasksByRole: { planner: 1, implementation: 1 } as Record<string, number>,
}

const result: TaskResult = {
  success: false,
  output: '',
  artifacts: [{ type: 'code', path: 'a.ts', description: 'a file' }],
  metrics: { executionTimeMs: 1, tokensUsed: 2 },
  error: { code: 'E', message: 'm', recoverable: true },
}

const task: HierarchicalTask = {
  id: 'task-root',
  parentId: null,
  depth: 0,
  children: ['task-1'],
  prompt: 'Root task',
  role: 'planner',
  workFolder: '/tmp/test',
  returnMode: 'summary',
  dependencies: [],
  status: 'completed',
  priority: 'high',
  retryCount: 0,
  maxRetries: 3,
  createdAt: Date.now(),
  result,
  tags: [],
}

const failure: SessionError = { timestamp: 1, code: 'E', message: 'm', severity: 'critical', recovered: false }

const agent: SwarmAgentConfig = {
  id: 'agent-1',
  role: 'judge',
  workFolder: '/tmp',
  priority: 'low',
  maxRetries: 1,
  timeoutMs: 1,
  createdAt: 1,
  state: 'recovering',
  completedTasks: 0,
  failedTasks: 0,
  totalExecutionTimeMs: 0,
  lastActivityAt: 1,
}

export class Orchestrator {
  private readonly store = new CheckpointStore('~/.meshseeks/sessions', 100)
  private readonly agents = new Map<string, SwarmAgentConfig>([[agent.id, agent]])
  private readonly context: Map<string, unknown> = new Map()

  async start(id: string): Promise<SwarmSession> {
    await this.store.initialize()
    await this.store.createSessionDirectory(id)
    const session: SwarmSession = {
      id,
      name: 'Run',
      status: 'active',
      rootTaskId: task.id,
      taskTree: new Map([[task.id, task]]),
      lastCheckpointId: null,
      checkpointIds: [],
      autoCheckpointIntervalMs: 300000,
      config,
      createdAt: Date.now(),
      expiresAt: Date.now() + 604800000,
      metrics,
      errors: [failure],
    }
    const saved: CheckpointResult = await this.store.saveSession(session)
    if (!saved.success) throw new Error(saved.error)
    await this.store.saveTaskTree(id, session.taskTree)
    return session
  }

  async checkpoint(session: SwarmSession): Promise<string | undefined> {
    const options: CheckpointOptions = { trigger: 'auto', includeContext: true, compress: false }
    const made = await this.store.createCheckpoint(session, this.agents, this.context, options)
    const compressed: boolean = options.compress
    const asRecords = await this.store.createCheckpoint(session, {}, {}, { ...options, compress: !compressed })
    return made.checkpointId ?? asRecords.checkpointId
  }

  async resume(sessionId: string): Promise<number> {
    const { checkpoints, total } = await this.store.listCheckpoints(sessionId, 10, 0)
    const newest: Checkpoint | null = await this.store.getLatestCheckpoint(sessionId)
    if (!newest || checkpoints.length > total) return 0
    const options: RestoreOptions = {
      checkpointId: newest.id,
      validateChecksum: true,
      resetFailedTasks: true,
      resetInProgressTasks: true,
    }
    const restored: RestoreResult = await this.store.restoreCheckpoint(options)
    for (const warning of restored.warnings) warning.toUpperCase()
    const session: Omit<SwarmSession, 'taskTree'> | null = await this.store.loadSession(sessionId)
    const tree: Record<string, HierarchicalTask> | null = await this.store.loadTaskTree(sessionId)
    const status: SessionStatus | undefined = session?.status
    const first: TaskStatus | undefined = tree?.[session?.rootTaskId ?? '']?.status
    const whole: SwarmSession | null = session && tree ? { ...session, taskTree: tree } : null
    return whole ? restored.restoredTasks + Object.keys(whole).length : (status ?? first ?? '').length
  }

  async results(sessionId: string): Promise<TaskResult | null> {
    await this.store.saveTaskResult(sessionId, task.id, result)
    const untyped: unknown = await this.store.loadTaskResult(sessionId, task.id)
    if (untyped === undefined) return null
    const stats: { totalSizeBytes: number; checkpointCount: number; resultCount: number } =
      await this.store.getSessionStorageStats(sessionId)
    const ids: string[] = await this.store.listSessions()
    if (stats.resultCount > ids.length) await this.store.deleteCheckpoint(sessionId, 'cp-1')
    await this.store.deleteSession(this.store.getBaseDir())
    return this.store.loadTaskResult<TaskResult>(sessionId, task.id)
  }
}

/** The same loop, checkpointed by itself. */
export async function checkpointedLoop(store: CheckpointStore, session: SwarmSession): Promise<string | undefined> {
  const failures: WaymarkError[] = []
  const policies: CheckpointPolicy[] = [CheckpointPolicy.afterToolCall(), CheckpointPolicy.afterModelResponse()]
  const policy = CheckpointPolicy.anyOf(
    ...policies,
    CheckpointPolicy.everyIterations(5),
    CheckpointPolicy.everyMs(60000),
    CheckpointPolicy.onError(),
    CheckpointPolicy.never(),
  )
  const options: AutoCheckpointOptions = {
    sessionId: session.id,
    everyMs: session.autoCheckpointIntervalMs,
    policy,
    capture: (): CapturedState => ({ session, agentStates: new Map([[agent.id, agent]]), contextStore: { step: 1 } }),
    options: { compress: true },
    onError: (error) => failures.push(error),
  }
  const auto: AutoCheckpoint = store.autoCheckpoint(options)
  const later = store.autoCheckpoint({ sessionId: session.id, policy, capture: async () => ({ session }) })
  const event: CheckpointEvent = { type: 'timer', elapsedMs: 5 }
  const isDue: boolean = policy.shouldCheckpoint(1, event)
  const made: CheckpointResult | undefined = isDue ? await auto.notify(event, 1) : await auto.notify('tool_call')
  await auto.now({ trigger: 'milestone', label: 'half way' })
  const last: CheckpointResult | undefined = await auto.stop()
  await later[Symbol.asyncDispose]()
  const count: number = auto.isStopped ? auto.taken : failures.length
  return count > 0 ? (auto.last ?? last ?? made)?.checkpointId : failures[0]?.code
}

export function refusedByTheCompiler(store: CheckpointStore, auto: AutoCheckpoint): void {
  // @ts-expect-error policies are made by static methods
  void new CheckpointPolicy()
  // @ts-expect-error an AutoCheckpoint is made by its store
  void new AutoCheckpoint()
  // @ts-expect-error an event is one of five
  void auto.notify('toolCall')
  // @ts-expect-error what it has done cannot be changed
  auto.taken = 1
  // @ts-expect-error somebody has to hand over the state
  store.autoCheckpoint({ sessionId: 's', everyMs: 1000 })
  // @ts-expect-error a capture holds a session
  store.autoCheckpoint({ sessionId: 's', everyMs: 1000, capture: () => ({}) })
}
