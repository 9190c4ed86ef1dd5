declare global {
  interface SymbolConstructor {
    // For compilers whose `lib` does not have it yet; @types/node does the same.
    readonly asyncDispose: unique symbol
  }
}

/** The status of a session. */
export type SessionStatus =
  | 'initializing'
  | 'active'
  | 'paused'
  | 'resuming'
  | 'completing'
  | 'completed'
  | 'failed'
  | 'archived'

/** The status of a task. */
export type TaskStatus =
  | 'pending'
  | 'queued'
  | 'blocked'
  | 'in_progress'
  | 'verifying'
  | 'rework'
  | 'completed'
  | 'failed'
  | 'cancelled'

/** The priority of a task or an agent. */
export type TaskPriority = 'critical' | 'high' | 'medium' | 'low'

/** The role of an agent, and the role that a task needs. */
export type AgentRole =
  | 'analysis'
  | 'implementation'
  | 'testing'
  | 'documentation'
  | 'debugging'
  | 'planner'
  | 'judge'
  | 'synthesizer'
  | 'monitor'

/** The state of an agent of the swarm. */
export type AgentState = 'idle' | 'starting' | 'running' | 'waiting' | 'stopping' | 'stopped' | 'failed' | 'recovering'

/** The reason why a checkpoint was created. */
export type CheckpointTrigger = 'auto' | 'manual' | 'error' | 'milestone'

/** `T` with only the members `K` required. */
export type AtLeast<T, K extends keyof T> = Partial<T> & Pick<T, K>

/** A product of a task. */
export interface TaskArtifact {
  type: 'file' | 'code' | 'document' | 'test' | 'other'
  path?: string
  content?: string
  description: string
}

/** The cost of a task. */
export interface TaskResultMetrics {
  executionTimeMs: number
  tokensUsed?: number
  apiCalls?: number
  filesModified?: number
  testsRun?: number
  testsPassed?: number
}

/** The failure of a task. */
export interface TaskError {
  code: string
  message: string
  stack?: string
  recoverable: boolean
  suggestedAction?: string
}

/** The outcome of a task. */
export interface TaskResult {
  success: boolean
  output: string
  summary?: string
  artifacts?: TaskArtifact[]
  metrics?: TaskResultMetrics
  error?: TaskError
}

/** A task in the tree of a session. Times are epoch milliseconds. */
export interface HierarchicalTask {
  id: string
  parentId: string | null
  depth: number
  children: string[]
  prompt: string
  role: AgentRole
  workFolder: string
  returnMode: 'summary' | 'full'
  dependencies: string[]
  status: TaskStatus
  priority: TaskPriority
  retryCount: number
  maxRetries: number
  assignedAgentId?: string
  createdAt: number
  startedAt?: number
  completedAt?: number
  estimatedDurationMs?: number
  actualDurationMs?: number
  result?: TaskResult
  checkpointId?: string
  tags: string[]
  metadata?: Record<string, unknown>
}

/** An agent of the swarm, with its state and counters. */
export interface SwarmAgentConfig {
  id: string
  role: AgentRole
  workFolder: string
  priority: TaskPriority
  contextData?: Record<string, unknown>
  maxRetries: number
  timeoutMs: number
  createdAt: number
  state: AgentState
  currentTaskId?: string
  completedTasks: number
  failedTasks: number
  totalExecutionTimeMs: number
  lastActivityAt: number
  metadata?: Record<string, unknown>
}

/** Counters of a session. */
export interface SessionMetrics {
  totalTasks: number
  completedTasks: number
  failedTasks: number
  pendingTasks: number
  inProgressTasks: number
  totalAgentsSpawned: number
  currentActiveAgents: number
  peakActiveAgents: number
  totalExecutionTimeMs: number
  averageTaskDurationMs: number
  checkpointsTaken: number
  checkpointsRestored: number
  judgeVerifications: number
  judgeApprovals: number
  judgeRejections: number
  tasksPerDepth: Record<number, number>
  tasksByStatus: Record<string, number>
  tasksByRole: Record<string, number>
}

/** An error that occurred in a session. */
export interface SessionError {
  timestamp: number
  taskId?: string
  agentId?: string
  code: string
  message: string
  severity: 'warning' | 'error' | 'critical'
  recovered: boolean
}

/** The limits of a swarm. */
export interface SwarmConfig {
  maxConcurrentAgents: number
  maxTaskDepth: number
  agentTimeoutMs: number
  sessionTimeoutMs: number
  enableJudge: boolean
  judgePassThreshold: number
  maxJudgeRetries: number
  checkpointIntervalMs: number
  checkpointDir: string
  maxCheckpointsPerSession: number
  minAgents: number
  maxAgents: number
  scaleUpThreshold: number
  scaleDownThreshold: number
  maxConsecutiveFailures: number
  failureThresholdPercent: number
  maxTotalTasks: number
  maxTasksPerLevel: number
}

/** A run of a swarm: its task tree and everything around it. Times are epoch milliseconds. */
export interface SwarmSession {
  id: string
  name: string
  description?: string
  status: SessionStatus
  rootTaskId: string
  taskTree: Map<string, HierarchicalTask> | Record<string, HierarchicalTask>
  lastCheckpointId: string | null
  checkpointIds: string[]
  autoCheckpointIntervalMs: number
  config: SwarmConfig
  createdAt: number
  startedAt?: number
  pausedAt?: number
  resumedAt?: number
  completedAt?: number
  expiresAt: number
  metrics: SessionMetrics
  errors: SessionError[]
  metadata?: Record<string, unknown>
  /** The checkpoint from which `forkSession()` created the session. */
  forkedFrom?: CheckpointReference
}

/** The options of `createCheckpoint()`. */
export interface CheckpointOptions {
  trigger: CheckpointTrigger
  description?: string
  /** Whether the context is stored. If not, the `contextStore` of the checkpoint is empty. */
  includeContext: boolean
  /** `true` is short for `encoding: 'gzip'`; `false` has no effect. */
  compress: boolean
  /** The encoding in which it is stored. Default: the `encoding` of the store. */
  encoding?: CheckpointEncoding
  /** A name for the checkpoint, of 1 to 200 bytes. */
  label?: string
  /** Whether the call fails if another checkpoint of the session has the label. */
  uniqueLabel?: boolean
  /** The checkpoint that must be the newest of the session when this one is stored; `null` if the session must have none. */
  ifParent?: string | null
  metadata?: Record<string, unknown>
}

/** A stored checkpoint. */
export interface Checkpoint {
  id: string
  sessionId: string
  timestamp: number
  trigger: CheckpointTrigger
  description?: string
  session: Omit<SwarmSession, 'taskTree'>
  taskTree: Record<string, HierarchicalTask>
  agentStates: Record<string, SwarmAgentConfig>
  contextStore: Record<string, unknown>
  /** SHA-256 of the session id, the timestamp, the task tree and the agent states. */
  checksum: string
  version: string
  /** The bytes that it takes up in the backend. */
  sizeBytes: number
  metadata?: Record<string, unknown>
  /** The number of tasks. Checkpoints of the original store have neither this member nor the following ones. */
  taskCount?: number
  /** The number of agent states. */
  agentCount?: number
  /** The label that was set at creation or later. */
  label?: string
  /** The previous checkpoint of the session: its `lastCheckpointId` at that time. */
  parent?: string
  /** SHA-256 of all other members. */
  integrity?: string
}

/**
 * The encoding in which a checkpoint is stored.
 *
 * - `'json'`: plain text, which the original store can read.
 * - `'gzip'`: compressed text, which the original store can read.
 * - `'zstd'`: compressed to about the same size in half the time.
 * - `'delta'`: the difference from a text in a base, which other checkpoints of the session (or of the agent) share. If
 *   checkpoints are similar, each takes up little more than what changed.
 */
export type CheckpointEncoding = 'json' | 'gzip' | 'zstd' | 'delta'

/** A checkpoint without its payload. */
export interface CheckpointInfo {
  id: string
  timestamp: number
  trigger: CheckpointTrigger
  description?: string
  /** The label that was set at creation or later. */
  label?: string
  /** The previous checkpoint of the session. */
  parent?: string
  taskCount: number
  agentCount: number
  /** The bytes that it takes up in the backend. */
  sizeBytes: number
  encoding: CheckpointEncoding
  /** Present if the checkpoint is exempt from retention. */
  pinned?: true
}

/** Selects checkpoints. A member that is absent does not filter. */
export interface CheckpointFilter {
  trigger?: CheckpointTrigger
  label?: string
  /** The earliest time: epoch milliseconds, or a Date. */
  since?: number | Date
  /** The latest time: epoch milliseconds, or a Date. */
  until?: number | Date
}

/** The options of `listCheckpointInfo()` and `listAllCheckpoints()`. */
export interface CheckpointInfoOptions extends CheckpointFilter {
  /** The maximum number of checkpoints; 0 or absent means all. */
  limit?: number
  /** The `cursor` of the previous page. */
  cursor?: string
}

/** The options of `checkpoints()`. */
export interface CheckpointIterationOptions extends CheckpointFilter {
  /** Whether damaged checkpoints are skipped. If not, they reject. */
  skipDamaged?: boolean
}

/** A page of checkpoints without their payloads, newest first. */
export interface CheckpointInfoList {
  checkpoints: CheckpointInfo[]
  /** The number of all checkpoints of the session, readable or not, without filter and limit. */
  total: number
  /** The position where the next page begins; absent on the last page. */
  cursor?: string
  /** The checkpoints of the page that could not be read. */
  damaged: DamagedCheckpoint[]
}

/** A checkpoint without its payload, with the id of its session. */
export interface SessionCheckpointInfo extends CheckpointInfo {
  sessionId: string
}

/** A page of the checkpoints of all sessions without their payloads, newest first. */
export interface AllCheckpointInfoList {
  checkpoints: SessionCheckpointInfo[]
  /** The number of all checkpoints of all sessions, readable or not, without filter and limit. */
  total: number
  /** The position where the next page begins; absent on the last page. */
  cursor?: string
  /** The checkpoints of the page that could not be read. */
  damaged: DamagedCheckpoint[]
}

/** The overview of a session, for which no checkpoint is read. */
export interface SessionInfo {
  id: string
  /** Absent, as are the members up to `tasks`, if the session was never saved or its document is damaged. */
  name?: string
  status?: SessionStatus
  createdAt?: number
  expiresAt?: number
  /** The checkpoint from which it was forked. */
  forkedFrom?: CheckpointReference
  /** The task counts in the metrics of the session. */
  tasks?: { total?: number; completed?: number; failed?: number; pending?: number; inProgress?: number }
  /** Why the document of the session cannot be read. */
  damaged?: string
  /** The number of checkpoints of the session itself. */
  checkpointCount: number
  /** The number of pinned ones among them. */
  pinnedCount: number
  /** The number of checkpoints of its agents. */
  agentCheckpointCount: number
  newestCheckpoint?: { id: string; timestamp: number }
  /** The bytes of everything that is stored for the session. */
  sizeBytes: number
  /** The current lease: its owner, its fencing token, and when it expires. */
  lease?: { owner: string; number: number; expiresAt: number }
}

/** The options of `expireSessions()`. */
export interface ExpireOptions {
  /** Default `'archive'`. */
  action?: 'archive' | 'delete'
}

/** A session that `expireSessions()` archived or deleted. */
export interface ExpiredSession {
  sessionId: string
  /** The status before; `null` if it had none. */
  status: SessionStatus | null
  expiresAt: number
  action: 'archived' | 'deleted'
}

/** What `expireSessions()` rejects with if some sessions could not be archived or deleted. */
export interface ExpireSessionsError extends Error {
  /** The code of the first failure, which is the `cause`. */
  code: WaymarkErrorCode
  /** The sessions that were archived or deleted. */
  expired: ExpiredSession[]
  /** The sessions that were not. Call the method again to retry. */
  failed: ExpireFailure[]
}

/** The options of `copyTo()`. */
export interface CopyOptions extends WorkOptions {
  /** The session to copy. Default: all sessions. */
  sessionId?: string
}

/**
 * The rules that say which checkpoints of a session are kept. The newest and pinned ones are always kept; pinned ones are not
 * counted.
 *
 * A checkpoint is kept if any of `keepLast`, `keepHourly` and `keepDaily` keeps it. If none of the three is set, all are kept.
 * `maxAgeMs` and `maxBytes` are additional limits. All numbers are whole numbers up to 2^53 - 1.
 */
export interface Retention {
  /** How many of the newest checkpoints are kept. */
  keepLast?: number
  /** For how many of the latest hours that have a checkpoint the newest one is kept. */
  keepHourly?: number
  /** For how many of the latest days that have a checkpoint the newest one is kept. Days begin at midnight UTC. */
  keepDaily?: number
  /** The age in milliseconds beyond which checkpoints are deleted. */
  maxAgeMs?: number
  /**
   * The most bytes that all checkpoints of the session may take up, pinned and labelled ones included. The oldest are deleted
   * first.
   */
  maxBytes?: number
  /** Whether checkpoints with a label are kept regardless of the other rules. Default `true`. */
  keepLabelled?: boolean
}

/** The options of `prune()`. */
export interface PruneOptions extends WorkOptions {
  /** Whether the call only reports what it would delete. */
  dryRun?: boolean
  /** Replaces the retention of the sessions for this call. */
  retention?: Retention
}

/** A checkpoint that `prune()` deleted, or with `dryRun` would delete. */
export interface PrunedCheckpoint {
  sessionId: string
  /** Present if it is a checkpoint of an agent. */
  agentId?: string
  checkpointId: string
  /** When it was created, by its id, in epoch milliseconds. */
  timestamp: number
  /** The bytes that it took up in the backend. */
  sizeBytes: number
  /** Why it is not kept, for people, such as `older than maxAgeMs (86400000)`. */
  reason: string
}

/** A failure of `prune()`. */
export interface PruneFailure {
  /** The session whose checkpoints were not deleted; absent if the store could not release the space. */
  sessionId?: string
  /** Present if it concerns an agent. */
  agentId?: string
  /** Present if it concerns one checkpoint, which was not deleted. */
  checkpointId?: string
  /** The message of the failure, for people. */
  error: string
  /** The code of the failure, for programs. */
  code: WaymarkErrorCode
}

/** The result of `prune()`. */
export interface PruneResult {
  /** Whether nothing was deleted because of `dryRun`. */
  dryRun: boolean
  /** The deleted checkpoints, oldest first for each session and agent. */
  removed: PrunedCheckpoint[]
  /** The number of checkpoints that are left in these sessions and their agents. */
  kept: number
  /** The bytes of the deleted checkpoints. */
  freedBytes: number
  /** What could not be deleted. Call the method again to retry. */
  failed: PruneFailure[]
}

/** The options of `labelCheckpoint()`. */
export interface LabelOptions {
  /** Whether the call fails if another checkpoint of the session has the label. */
  unique?: boolean
}

/** The options of `forkSession()`. */
export interface ForkOptions {
  sessionId: string
  checkpointId: string
  /** The id of the new session, which must not exist. */
  newSessionId: string
  /** Whether failed tasks are reset to `pending`, without their retries and results. */
  resetFailedTasks?: boolean
  /** Whether interrupted tasks are reset to `pending`. */
  resetInProgressTasks?: boolean
}

/** A checkpoint in the tree of a session. */
export interface HistoryCheckpoint extends CheckpointInfo {
  /** The checkpoints whose `parent` is this one, oldest first. */
  children: string[]
  /** The sessions that were forked from this one. */
  forks: string[]
}

/** The tree of the checkpoints of a session. Its roots are those whose `parent` is absent or deleted. */
export interface SessionHistory {
  sessionId: string
  /** The checkpoint from which the session was forked. */
  forkedFrom?: CheckpointReference
  /** Newest first. */
  checkpoints: HistoryCheckpoint[]
  /** The ids of checkpoints that could not be read. */
  damaged: string[]
}

/** The options of `loadSession()` and `loadTaskTree()`. */
export interface LoadOptions {
  /** 0 or absent for the current version, -1 for the one before, and so on. `keepPrevious` says how many are kept. */
  version?: number
}

/** The options of `saveSession()`. */
export interface SaveOptions {
  /** The revision that the stored session must have; `null` if the session must not exist yet. */
  ifRevision?: string | null
}

/** One message of an agent's conversation. Other members are kept. */
export interface AgentMessage {
  role: string
  content: unknown
  [member: string]: unknown
}

/** One tool call of an agent. Other members are kept. */
export interface AgentToolCall {
  toolName: string
  arguments: unknown
  result?: unknown
  success: boolean
  [member: string]: unknown
}

/** The status of an agent in its own checkpoints. */
export type AgentStatus = 'in_progress' | 'completed' | 'failed' | 'halted'

/** The state from which an agent can continue. Other members are kept. */
export interface AgentSnapshot {
  /** The number of the current step. */
  iteration?: number
  messages?: AgentMessage[]
  toolCalls?: AgentToolCall[]
  /** Tool calls that have no result yet. */
  pendingToolCalls?: unknown[]
  partialResults?: unknown[]
  status?: AgentStatus
  /** Why it failed or was halted. */
  statusReason?: string
  tokensUsed?: number
  costEstimate?: number
  /** A hint for the program that resumes the agent. */
  resumeHint?: string
  /** A name for the checkpoint. */
  label?: string
  metadata?: Record<string, unknown>
  /** The milliseconds after which the checkpoint expires: lists leave it out, and `prune()` of the agent deletes it. */
  ttlMs?: number
  /** Any bytes. They are returned unchanged. */
  context?: Uint8Array
  [member: string]: unknown
}

/** A stored checkpoint of an agent. */
export interface AgentCheckpoint extends AgentSnapshot {
  id: string
  sessionId: string
  agentId: string
  timestamp: number
  messages: AgentMessage[]
  toolCalls: AgentToolCall[]
  /** When it expires, if it has a `ttlMs`. */
  expiresAt?: number
  version: string
  /** The bytes that it takes up in the backend. */
  sizeBytes: number
  messageCount: number
  toolCallCount: number
  /** SHA-256 of all other members. */
  integrity: string
  /** Of `latest()` only: newer checkpoints that are damaged. */
  passedOver?: DamagedCheckpoint[]
}

/** A checkpoint of an agent without its payload. */
export interface AgentCheckpointInfo {
  id: string
  timestamp: number
  iteration?: number
  status?: AgentStatus
  statusReason?: string
  label?: string
  tokensUsed?: number
  costEstimate?: number
  expiresAt?: number
  messageCount: number
  toolCallCount: number
  /** The bytes that it takes up in the backend. */
  sizeBytes: number
  encoding: CheckpointEncoding
}

/** The options of `save()` of an agent. */
export interface AgentSaveOptions {
  /** `true` is short for `encoding: 'gzip'`. */
  compress?: boolean
  /** The encoding in which it is stored. Default: the `encoding` of the store. */
  encoding?: CheckpointEncoding
}

/** The options of `list()` and `info()` of an agent. */
export interface AgentListOptions {
  /** Default `'newest'`: newest first. `'iteration'`: lowest iteration first. */
  order?: 'newest' | 'iteration'
  /** The maximum number of checkpoints; 0 or absent means all. */
  limit?: number
  /** The `cursor` of the previous page in the same order. */
  cursor?: string
}

/** A page of an agent's checkpoints. */
export interface AgentCheckpointList {
  checkpoints: AgentCheckpoint[]
  /** The number of all checkpoints that have not expired, readable or not, without limit. */
  total: number
  /** The position where the next page begins; absent on the last page. */
  cursor?: string
  damaged: DamagedCheckpoint[]
}

/** A page of an agent's checkpoints without their payloads. */
export interface AgentCheckpointInfoList {
  checkpoints: AgentCheckpointInfo[]
  /** The number of all checkpoints that have not expired, readable or not, without limit. */
  total: number
  /** The position where the next page begins; absent on the last page. */
  cursor?: string
  damaged: DamagedCheckpoint[]
}

/** A page of checkpoints, newest first. */
export interface CheckpointList {
  checkpoints: Checkpoint[]
  /** The number of all checkpoints, readable or not, without limit and offset. */
  total: number
  /** The checkpoints of the page that could not be read. */
  damaged: DamagedCheckpoint[]
}

/** The options of `restoreCheckpoint()`. */
export interface RestoreOptions {
  checkpointId: string
  /** The session of the checkpoint. Without it all sessions are searched. */
  sessionId?: string
  /** Whether the call fails if the checksums of the checkpoint do not match. */
  validateChecksum: boolean
  /** Whether failed tasks are reset to `pending`, without their retries and results. */
  resetFailedTasks: boolean
  /** Whether interrupted tasks are reset to `pending`. */
  resetInProgressTasks: boolean
  /** Whether the result has the restored state, with the agent states and the context. */
  includeState?: boolean
}

/** The state of a restored checkpoint, after the resets. */
export interface RestoredState {
  session: Omit<SwarmSession, 'taskTree'>
  taskTree: Record<string, HierarchicalTask>
  agentStates: Record<string, SwarmAgentConfig>
  contextStore: Record<string, unknown>
}

/** The verification of a checkpoint of an agent. */
export interface AgentCheckpointVerification extends CheckpointVerification {
  agentId: string
}

/** The options of `recoverSession()`, all off by default. */
export interface RecoverOptions {
  /** Whether failed tasks are reset to `pending`, without their retries and results. */
  resetFailedTasks?: boolean
  /** Whether interrupted tasks are reset to `pending`. */
  resetInProgressTasks?: boolean
  /** Whether the result has the restored state, with the agent states and the context. */
  includeState?: boolean
  /** Whether damaged checkpoints are moved into the session's `damaged/`. */
  quarantine?: boolean
  /** Whether the call only reports what it would do. */
  dryRun?: boolean
}

/** A damaged checkpoint that `recoverSession()` skipped. */
export interface PassedOverCheckpoint extends DamagedCheckpoint {
  /** The path to which `quarantine` moved it. */
  movedTo?: string
}

/** The result of `recoverSession()`. */
export interface RecoverResult extends RestoreResult {
  /** The checkpoint that was restored. */
  checkpointId?: string
  /** Newer checkpoints that are damaged. */
  passedOver: PassedOverCheckpoint[]
}

/** Names a checkpoint of a session. */
export interface CheckpointReference {
  sessionId: string
  checkpointId: string
}

/** One of two compared checkpoints. */
export interface ComparedCheckpoint extends CheckpointReference {
  /** When it was created, in epoch milliseconds. */
  timestamp: number
}

/** A value that differs between the two checkpoints. */
export interface MemberChange {
  id: string
  /**
   * The members that differ, including added and removed ones. Empty if one of the two values is not an object, and so differs as
   * a whole.
   */
  members: string[]
}

/** A task that differs between the two checkpoints. */
export interface TaskChange extends MemberChange {
  /** Present if the status differs; `null` if the task has none. */
  status?: { from: string | null; to: string | null }
}

/** The difference between two checkpoints. */
export interface CheckpointDiff {
  /** The checkpoint before. */
  a: ComparedCheckpoint
  /** The checkpoint after. */
  b: ComparedCheckpoint
  /** Whether all lists below are empty. */
  identical: boolean
  /** Ids of tasks, in the order of the tree of `a` for removed ones, and of `b` for all others. */
  tasks: { added: string[]; removed: string[]; changed: TaskChange[] }
  /** Ids of agents. */
  agents: { added: string[]; removed: string[]; changed: MemberChange[] }
  /** Keys of the context, which is empty in a checkpoint that was created without `includeContext`. */
  context: { added: string[]; removed: string[]; changed: string[] }
  /**
   * The members of the session that differ, including added and removed ones. `lastCheckpointId` and `checkpointIds` always
   * differ and are not listed.
   */
  session: string[]
}

/** The options of a store. */
export interface CheckpointStoreOptions {
  /**
   * The maximum number of checkpoints of a session; the oldest are deleted first. `Infinity` keeps all. Default 100, or no limit
   * if `retention` is set. If both are set, both apply.
   */
  maxCheckpointsPerSession?: number
  /** The retention of sessions for which `setRetention()` set none. It does not apply to agents. */
  retention?: Retention
  /** The maximum number of checkpoints of an agent; the oldest are deleted first. Default 100; `Infinity` keeps all. */
  maxCheckpointsPerAgent?: number
  /** How many earlier versions of each session and task tree are kept for `loadSession()` and `loadTaskTree()`. Default 0. */
  keepPrevious?: number
  /**
   * `'full'` (default): an acknowledged write survives a power cut. `'relaxed'`: it survives a crash of the process, but not a
   * power cut; this is faster, for caches and tests. Writes are atomic in both cases.
   */
  durability?: 'full' | 'relaxed'
  /**
   * Whether `initialize()` rejects with `WAYMARK_NOT_FOUND` if the store does not exist, instead of creating it, for example for
   * programs that only read. Default `false`.
   */
  mustExist?: boolean
  /** The maximum size in bytes of an item that is read, after decompression. Default 1 GiB. */
  maxReadBytes?: number
  /** The encoding of checkpoints that are created without one. Default `'json'`. */
  encoding?: CheckpointEncoding
  /**
   * How many bytes of text are kept in memory for checkpoints in the encoding `'delta'`. Default 64 MiB. If the texts of all
   * sessions that are written to do not fit, they are read again for each checkpoint.
   */
  deltaCacheBytes?: number
  /**
   * How many milliseconds a call waits for a lock that another process holds before it fails with `WAYMARK_BUSY`. Default 10,000.
   * On PostgreSQL: how many milliseconds a call to the server may take in all, including the wait for a connection and retries;
   * an import or a fork may take that long for each item.
   */
  timeoutMs?: number
  /** On PostgreSQL: the maximum number of connections. Default 10. Calls wait until one is free. */
  maxConnections?: number
}

/** The part of an `AbortSignal` that this package uses, so that its types need neither the DOM nor @types/node. */
export interface StopSignal {
  readonly aborted: boolean
  readonly reason?: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** The `AbortSignal` of the runtime, if its types are available. */
export type RuntimeSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } } ? Signal : StopSignal

/** The options to observe and stop long-running work. */
export interface WorkOptions {
  /**
   * Called with the progress at most twenty times a second, once more when the work is done, and never after the promise is
   * settled. If it throws, the work stops and the promise rejects with the thrown value.
   */
  onProgress?: (progress: WorkProgress) => void
  /**
   * An `AbortSignal` that stops the work: the promise rejects with an `AbortError` whose `code` is `'ABORT_ERR'` and whose
   * `cause` is the reason of the signal. A stopped export or import leaves nothing behind. What a stopped copy, conversion or
   * pruning has done is kept, and the next call continues from there.
   */
  signal?: StopSignal
}

/** The options of `exportSession()`. */
export type ExportOptions = WorkOptions

/** The options of `importSession()`. */
export interface ImportOptions extends WorkOptions {
  /**
   * Another id for the session. Its document, and earlier versions of it, get that `id`; everything else is imported byte for
   * byte.
   */
  as?: string
}

/** The kind of an event in the loop of an agent. */
export type CheckpointEventType = 'tool_call' | 'model_response' | 'iteration' | 'error' | 'timer'

/** An event: its type, or its type with the milliseconds since the last checkpoint. */
export type CheckpointEvent = CheckpointEventType | { type: CheckpointEventType; elapsedMs?: number }

/**
 * Decides when a checkpoint is due. Policies are immutable and stateless: one policy can be used for many sessions.
 *
 * The methods that create policies throw an `Error` with the code `WAYMARK_INVALID_ARGUMENT` for invalid arguments.
 */
export declare class CheckpointPolicy {
  private constructor()
  /** After each tool call: the event `'tool_call'`. */
  static afterToolCall(): CheckpointPolicy
  /** After each response of a model: the event `'model_response'`. */
  static afterModelResponse(): CheckpointPolicy
  /** After every `n`-th iteration: the event `'iteration'`. `n` is a whole number of at least 1. */
  static everyIterations(n: number): CheckpointPolicy
  /** At the first event of any type at least `ms` milliseconds after the last checkpoint. */
  static everyMs(ms: number): CheckpointPolicy
  /** After each failure: the event `'error'`. */
  static onError(): CheckpointPolicy
  /** Never. */
  static never(): CheckpointPolicy
  /** Whenever one of the given policies is due; at least one is required. */
  static anyOf(...policies: CheckpointPolicy[]): CheckpointPolicy
  /** Whether a checkpoint is due at this event. Throws for an unknown event. */
  shouldCheckpoint(iteration: number, event: CheckpointEvent): boolean
}

/** The state that `capture` returns for an automatic checkpoint. */
export interface CapturedState {
  session: SwarmSession
  agentStates?: Map<string, SwarmAgentConfig> | Record<string, SwarmAgentConfig>
  contextStore?: Map<string, unknown> | Record<string, unknown>
}

/** The options of `autoCheckpoint()`. `everyMs`, `policy` or both are required. */
export interface AutoCheckpointOptions {
  /** The id of the session. A captured session with another id is an error. */
  sessionId: string
  /** The interval between checkpoints in milliseconds. The timer does not keep the process alive. */
  everyMs?: number
  /** Decides for each event that `notify()` reports whether a checkpoint is due. */
  policy?: CheckpointPolicy
  /**
   * Returns the current state. It must not wait for a checkpoint of the same `AutoCheckpoint`, which waits for it.
   */
  capture: () => CapturedState | Promise<CapturedState>
  /**
   * How many milliseconds a promise of `capture` may take. Default 60,000; `Infinity` means no limit. If it takes longer, the
   * checkpoint fails with `WAYMARK_INVALID_ARGUMENT` and a `cause` with the code `ETIMEDOUT`, and a later result is ignored. So
   * `stop()` waits for at most two captures and two saves. The timer does not keep the process alive.
   */
  captureTimeoutMs?: number
  /** The options of each checkpoint. By default `trigger` is `'auto'` and `includeContext` is `true`. */
  options?: Partial<CheckpointOptions>
  /**
   * Called with each failure. Later checkpoints are still taken. Without it, `now()`, `notify()` and `stop()`
   * reject, and failures on the timer are emitted as process warnings.
   */
  onError?: (error: WaymarkError) => void
}

/** Takes checkpoints of one session automatically, never two at once: see `autoCheckpoint()`. */
export declare class AutoCheckpoint {
  private constructor()
  /** The result of the last checkpoint that succeeded. */
  get last(): CheckpointResult | undefined
  /** The number of checkpoints that succeeded. */
  get taken(): number
  /** Whether `stop()` was called. */
  get isStopped(): boolean
  /**
   * Takes a checkpoint if it is due by the policy. Resolves to its result, or to `undefined` if none was taken.
   *
   * `iteration` defaults to that of the previous call, and to 0 at first. The time since the last checkpoint is
   * measured here. If a checkpoint is running, one more is taken after it, which all calls made meanwhile share.
   */
  notify(event: CheckpointEvent, iteration?: number): Promise<CheckpointResult | undefined>
  /**
   * Takes a checkpoint regardless of the policy. Resolves to its result, or to `undefined` if it failed.
   *
   * `options` are for this checkpoint only. If a checkpoint is running, one more is taken after it, which all calls made
   * meanwhile share; of differing options, the last ones are used.
   */
  now(options?: Partial<CheckpointOptions>): Promise<CheckpointResult | undefined>
  /**
   * Stops the timer, waits for the running checkpoint, and takes a last one. Resolves to its result, or to `undefined` if
   * it failed. Afterwards `now()` and `notify()` reject with `WAYMARK_CLOSED`.
   */
  stop(): Promise<CheckpointResult | undefined>
  /** `stop()`, for `await using auto = …`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The options of `acquireSession()`. */
export interface AcquireOptions {
  /**
   * The name of the owner, of 1 to 200 bytes, for messages and overviews. Default: the machine, the process and a random part.
   */
  owner?: string
  /**
   * How many milliseconds the lease lasts if it is not renewed, from 50 to a day. Default 30,000. It is renewed three times in
   * that period.
   */
  ttlMs?: number
  /** How many milliseconds to wait for a session that another owner holds. Default 0; `Infinity` means no limit. */
  waitMs?: number
  /** Stops the waiting. */
  signal?: StopSignal
}

/** The options of `acquireNext()`. */
export interface AcquireNextOptions extends AcquireOptions {
  /**
   * The allowed status, or several. Default: those of a running session, `'initializing'`, `'active'`, `'resuming'` and
   * `'completing'`.
   */
  status?: SessionStatus | SessionStatus[]
}

/**
 * The lease of a session: see `acquireSession()`.
 *
 * It is renewed automatically until it is released or lost. It is lost if the process or its event loop was blocked for longer
 * than `ttlMs` and another owner has acquired the session. The timer does not keep the process alive.
 */
export declare class SessionLease {
  private constructor()
  get sessionId(): string
  get owner(): string
  /** The fencing token: it grows with each lease of the session. Pass it to other systems that must reject a former owner. */
  get number(): number
  /** When the lease expires if it is not renewed, in epoch milliseconds. */
  get expiresAt(): number
  /** Whether the lease is known to be lost to another owner. */
  get isLost(): boolean
  /** Whether `release()` was called. */
  get isReleased(): boolean
  /**
   * Aborts when the lease is known to be lost, by a renewal or because a write of its store was rejected. Pass it to the work
   * that must stop then. The reason is an error with the code `WAYMARK_LEASE_LOST`.
   */
  get signal(): RuntimeSignal
  /** Renews the lease now. Rejects with `WAYMARK_LEASE_LOST` if another owner has acquired the session. */
  renew(): Promise<void>
  /** Releases the lease. Has no effect if it is already lost. */
  release(): Promise<void>
  /** `release()`, for `await using lease = …`. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface CheckpointStore {
  /**
   * Makes this store the only one that can write to a session, until the lease is released. The session need not exist yet.
   *
   * While the lease is held, writes of other stores fail with `WAYMARK_LEASE_LOST`; those of a former owner fail also later.
   * Reading is always allowed. Rejects with `WAYMARK_LEASE_HELD` and the current `lease` if another owner holds it for longer
   * than `waitMs`; `force` takes it away from that owner.
   */
  acquireSession(sessionId: string, options?: AcquireOptions & { force?: boolean }): Promise<SessionLease>
  /**
   * Acquires any saved session that has no owner, for example because its process has ended; `null` if there is none within
   * `waitMs`.
   */
  acquireNext(options?: AcquireNextOptions): Promise<SessionLease | null>
  /**
   * Takes checkpoints of a session automatically, by a timer, a policy, or both, until it is stopped.
   *
   * Throws an `Error` with the code `WAYMARK_INVALID_ARGUMENT` if an option is invalid.
   */
  autoCheckpoint(options: AutoCheckpointOptions): AutoCheckpoint
}

/** The error with which promises of the store reject. */
export interface WaymarkError extends Error {
  code: WaymarkErrorCode
}

/** The `code` of errors and failed results. The meaning of a code never changes. */
export type WaymarkErrorCode =
  | 'WAYMARK_NOT_INITIALIZED'
  | 'WAYMARK_CLOSED'
  | 'WAYMARK_INVALID_ARGUMENT'
  | 'WAYMARK_INVALID_ID'
  | 'WAYMARK_NOT_SERIALIZABLE'
  | 'WAYMARK_NOT_FOUND'
  | 'WAYMARK_EXISTS'
  | 'WAYMARK_CONFLICT'
  | 'WAYMARK_LEASE_HELD'
  | 'WAYMARK_LEASE_LOST'
  | 'WAYMARK_BUSY'
  | 'WAYMARK_AMBIGUOUS'
  | 'WAYMARK_CORRUPT'
  | 'WAYMARK_CHECKSUM_MISMATCH'
  | 'WAYMARK_NEWER_VERSION'
  | 'WAYMARK_TOO_LARGE'
  | 'WAYMARK_IO'
  | 'WAYMARK_OUTCOME_UNKNOWN'
  | 'WAYMARK_INTERNAL'

/**
 * Which binding artifact the generated loader actually loaded: `'native'` for
 * a native addon, otherwise the `platformArchABI` of the WASI flavor. Every
 * flavor napi-rs can build is listed, because `NAPI_RS_NATIVE_LIBRARY_PATH`
 * can point the loader at a WASI artifact this package does not build itself.
 */
export declare const __napiBindingTarget: 'native' | 'wasm32-wasi' | 'wasm32-wasip1'

/** The checkpoints of one agent: see `CheckpointStore.agent()`. */
export declare class AgentCheckpoints {
  /** Stores the current state of the agent, and then deletes its oldest checkpoints beyond `maxCheckpointsPerAgent`. */
  save(state: AgentSnapshot, options?: AgentSaveOptions): Promise<CheckpointResult>
  /**
   * The newest whole checkpoint that has not expired, or `null`.
   *
   * Its `passedOver` reports damaged ones that are newer. Rejects if all are damaged.
   */
  latest(): Promise<AgentCheckpoint | null>
  /** One checkpoint, or `null`. An expired one is returned until it is pruned. */
  get(checkpointId: string): Promise<AgentCheckpoint | null>
  /** Complete checkpoints that have not expired: newest first, or by their iteration, lowest first. */
  list(options?: AgentListOptions): Promise<AgentCheckpointList>
  /** The same list without the payloads: messages, tool calls and other large members are not read. */
  info(options?: AgentListOptions): Promise<AgentCheckpointInfoList>
  /** Whether the agent has a checkpoint that has not expired. */
  has(): Promise<boolean>
  /** Deletes expired checkpoints, and all others but the newest `keep`. Resolves to the number of deleted checkpoints. */
  prune(keep: number): Promise<number>
  /** Deletes all checkpoints of the agent. Resolves to the number of deleted checkpoints. */
  clear(): Promise<number>
  /**
   * Deletes a checkpoint. One that does not exist is not a failure. The `code` is `WAYMARK_BUSY` if another process holds the
   * lock on the checkpoints for longer than `timeoutMs`.
   */
  delete(checkpointId: string): Promise<CheckpointResult>
  /** Verifies a checkpoint. Rejects with `WAYMARK_NOT_FOUND` if it does not exist. */
  verify(checkpointId: string): Promise<CheckpointVerification>
}

/** An asynchronous iterator over checkpoints: see `CheckpointStore.checkpoints()`. */
export declare class CheckpointIterator {
  /** The next checkpoint. */
  next(): Promise<IteratorResult<Checkpoint, undefined>>
  /** Ends the iteration. `for await` calls it when the loop is left early. */
  return(): Promise<IteratorResult<Checkpoint, undefined>>
  /** The iterator itself, for `for await`. */
  [globalThis.Symbol.asyncIterator](): this
}

/**
 * Stores the sessions of an orchestrator, with their checkpoints, task trees and results, at one location.
 *
 * All methods but `getBaseDir()`, `agent()`, `checkpoints()` and `autoCheckpoint()` are asynchronous and never throw
 * synchronously. Methods that resolve to a result object report failures in it (`success: false` with `error` and
 * `code`); all others reject with an `Error` that has a `code`. Before `initialize()` every asynchronous method rejects.
 */
export declare class CheckpointStore {
  /**
   * Creates a store object for a location. Nothing is read or written before `initialize()`.
   *
   * `baseDir` is a directory (`~` is the home directory, a relative path is resolved now), `sqlite:` and the path of a
   * database file, a `postgres://` URL, or `memory:` for a store that exists as long as this object. The default is
   * `~/.meshseeks/sessions`. A number as the second argument means `maxCheckpointsPerSession`.
   */
  constructor(baseDir?: string, options?: number | CheckpointStoreOptions)
  /** Opens the store, and creates it if it does not exist. Can be called again. */
  initialize(): Promise<void>
  /**
   * Rejects new calls immediately, and resolves when running calls have ended and all files and connections are closed.
   * `initialize()` opens the store again.
   *
   * An SQLite database is in one file afterwards: its log is moved into it, and files beside it are not needed. If another store
   * or process is reading it at that moment, a part of the log may stay in the file beside it (`-wal`) until that one closes it.
   * If the log cannot be moved, for example because the disk is full, the call rejects with `WAYMARK_IO`: the store is closed,
   * and the content of the log is not lost.
   */
  close(): Promise<void>
  /** `close()`, for `await using store = …`. */
  [globalThis.Symbol.asyncDispose](): Promise<void>
  /**
   * The absolute base directory (or `sqlite:` and the absolute path, the URL without its password, or `memory:`), even before
   * `initialize()`.
   */
  getBaseDir(): string
  /** Creates an empty session. The other methods create it when they need it. */
  createSessionDirectory(sessionId: string): Promise<void>
  /**
   * Stores a session without its `taskTree`, which `saveTaskTree()` stores.
   *
   * With `ifRevision` it is stored only if the stored session still has that revision. Otherwise the result has the code
   * `WAYMARK_CONFLICT`, and the stored revision as `current`.
   */
  saveSession(session: SwarmSession, options?: SaveOptions): Promise<CheckpointResult>
  /**
   * The session as it was last saved or restored, or `null`. `version` selects an earlier version, if the store keeps them.
   *
   * With `withRevision` the result also has its revision, for `saveSession(session, { ifRevision })`.
   */
  loadSession<S extends SwarmSession = SwarmSession>(sessionId: string, options: LoadOptions & { withRevision: true }): Promise<{ session: Omit<S, 'taskTree'>; revision: string } | null>
  loadSession<S extends SwarmSession = SwarmSession>(sessionId: string, options?: LoadOptions): Promise<Omit<S, 'taskTree'> | null>
  /** Stores the task tree of a session. A Map becomes a plain object. */
  saveTaskTree(sessionId: string, taskTree: Map<string, HierarchicalTask> | Record<string, HierarchicalTask>): Promise<CheckpointResult>
  /** The task tree as it was last saved or restored, or `null`. `version` selects an earlier version, if the store keeps them. */
  loadTaskTree<T extends HierarchicalTask = HierarchicalTask>(sessionId: string, options?: LoadOptions): Promise<Record<string, T> | null>
  /** The ids of all saved sessions, sorted. */
  listSessions(): Promise<string[]>
  /** Deletes a session and everything in it in one step. A session that does not exist is not a failure. */
  deleteSession(sessionId: string): Promise<CheckpointResult>
  /**
   * Stores the current state of a session as a checkpoint, and then deletes the checkpoints that retention does not keep.
   *
   * The state is read before the method returns: later changes by the caller are not part of the checkpoint. The short
   * form `createCheckpoint(session, options)` is for sessions without agent states and context.
   *
   * With `ifParent` it is stored only if that checkpoint is still the newest of the session. Otherwise the result has the code
   * `WAYMARK_CONFLICT`, and the id of the newest as `current`.
   */
  createCheckpoint(session: SwarmSession, agentStates: Map<string, SwarmAgentConfig> | Record<string, SwarmAgentConfig>, contextStore: Map<string, unknown> | Record<string, unknown>, options: AtLeast<CheckpointOptions, 'trigger'>): Promise<CheckpointResult>
  createCheckpoint(session: SwarmSession, options: AtLeast<CheckpointOptions, 'trigger'>): Promise<CheckpointResult>
  /**
   * Complete checkpoints, newest first. `limit` 0 or absent means all; `total` does not depend on `limit` and `offset`.
   *
   * A checkpoint that cannot be read is left out and reported in `damaged`; `total` still counts it.
   */
  listCheckpoints(sessionId: string, limit?: number, offset?: number): Promise<CheckpointList>
  /** One checkpoint, in whatever encoding it is stored, or `null`. */
  getCheckpoint(sessionId: string, checkpointId: string): Promise<Checkpoint | null>
  /** The newest checkpoint of a session, or `null`. */
  getLatestCheckpoint(sessionId: string): Promise<Checkpoint | null>
  /**
   * Replaces the session and the task tree by those of a checkpoint, in one step: after a crash both are old or both are new.
   *
   * The checkpoint is named by `checkpointId` alone, by `sessionId` and `checkpointId`, or as
   * `session/checkpoint`. Interrupted or failed tasks can be reset to `pending`; `warnings` names each of them.
   */
  restoreCheckpoint(options: AtLeast<RestoreOptions, 'checkpointId'>): Promise<RestoreResult>
  restoreCheckpoint(sessionId: string, checkpointId: string, options?: Partial<Omit<RestoreOptions, 'checkpointId' | 'sessionId'>>): Promise<RestoreResult>
  /**
   * Deletes a checkpoint. One that does not exist is not a failure. The `code` is `WAYMARK_BUSY` if another process holds the
   * lock on the checkpoints for longer than `timeoutMs`.
   */
  deleteCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /** Stores the result of a task: any value that JSON can hold. */
  saveTaskResult(sessionId: string, taskId: string, result: unknown): Promise<CheckpointResult>
  /** The result of a task, or `null`. */
  loadTaskResult<T = unknown>(sessionId: string, taskId: string): Promise<T | null>
  /** What a session takes up; zeros for one that does not exist. */
  getSessionStorageStats(sessionId: string): Promise<SessionStorageStats>
  /**
   * The checkpoints of one agent of a session, which are separate from those of the session and of its other agents.
   *
   * Nothing is read or written yet. If an id is not valid, the methods of the returned object fail.
   */
  agent(sessionId: string, agentId: string): AgentCheckpoints
  /** The ids of the agents of a session that have checkpoints of their own, sorted. */
  listAgents(sessionId: string): Promise<string[]>
  /**
   * The checkpoints of a session, newest first, without their payloads.
   *
   * A page ends after `limit` checkpoints. Pass its `cursor` to get the next page; the last page has none. A cursor stays valid
   * while checkpoints are created and deleted.
   */
  listCheckpointInfo(sessionId: string, options?: CheckpointInfoOptions): Promise<CheckpointInfoList>
  /**
   * Complete checkpoints, newest first, for `for await`: each is read when the loop reaches it.
   *
   * The iterator returns the checkpoints that existed at the first call of `next()`, without those that are deleted meanwhile. A
   * damaged one rejects, and the next call of `next()` continues after it; with `skipDamaged` it is skipped.
   */
  checkpoints(sessionId: string, options?: CheckpointIterationOptions): CheckpointIterator
  /**
   * Reports what changed from checkpoint `a` to checkpoint `b`: tasks, agents, context and session.
   *
   * Their sessions and encodings may differ. The order of keys makes no difference. A string names a checkpoint
   * as `session/checkpoint`. Rejects with `WAYMARK_NOT_FOUND` if one of them does not exist, and like `getCheckpoint()`
   * if one is damaged.
   */
  diffCheckpoints(a: CheckpointReference | string, b: CheckpointReference | string): Promise<CheckpointDiff>
  /**
   * An overview of each session, sorted by id: name, status, task counts, number of checkpoints, the newest one, bytes, expiry
   * and lease. No checkpoint is read.
   */
  sessionsInfo(): Promise<SessionInfo[]>
  /** The overview of one session, as in `sessionsInfo()`; `null` if it has neither a document nor checkpoints. */
  sessionInfo(sessionId: string): Promise<SessionInfo | null>
  /**
   * The checkpoints of all sessions, newest first, without their payloads: like `listCheckpointInfo()`, with the `sessionId` of
   * each.
   */
  listAllCheckpoints(options?: CheckpointInfoOptions): Promise<AllCheckpointInfoList>
  /**
   * Deletes all checkpoints of a session itself, also pinned ones. Its document, its results and its agents are kept. Resolves
   * to the number of deleted checkpoints.
   */
  deleteSessionCheckpoints(sessionId: string): Promise<number>
  /**
   * Archives the sessions whose `expiresAt` is not after `now`, or with `action: 'delete'` deletes them. Resolves to these
   * sessions.
   *
   * A running session (`initializing`, `active`, `resuming`, `completing`) is not changed, however old it is. Archiving sets the
   * status to `archived`. Decision and change are one atomic step: a session that is saved as active meanwhile, or whose lease
   * another store holds, is not changed.
   *
   * If some sessions cannot be archived or deleted, the others still are, and the promise rejects with an
   * `ExpireSessionsError`, which lists both in `failed` and `expired`.
   */
  expireSessions(now?: number | Date, options?: ExpireOptions): Promise<ExpiredSession[]>
  /**
   * The sessions that were running when their state was last stored, each with its newest whole checkpoint, from which a new
   * process can continue. `recoverSession()` restores one.
   */
  recoverable(): Promise<RecoverableSession[]>
  /**
   * Copies sessions into another store: documents, checkpoints, agents, results, labels and pins. Each copy is read and
   * compared.
   *
   * Everything is copied byte for byte, except deltas, which are encoded against bases of the other store. Items that only the
   * other store has are kept. An interrupted copy continues when it is called again.
   */
  copyTo(other: CheckpointStore, options?: CopyOptions): Promise<CopyResult>
  /**
   * Verifies a checkpoint: it is whole if it can be read, its version is known, and its checksums match.
   *
   * A checkpoint that another program has written in another form, with the same data, is whole. Rejects with
   * `WAYMARK_NOT_FOUND` if it does not exist.
   */
  verifyCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointVerification>
  /** Verifies everything in a session: its checkpoints, newest first, and its other files. */
  verifySession(sessionId: string, options?: WorkOptions): Promise<SessionVerification>
  /**
   * Restores the newest whole checkpoint of a session, and reports the damaged ones that are newer.
   *
   * With `quarantine` the damaged ones are moved into the session's `damaged/`. No damaged checkpoint is ever deleted.
   */
  recoverSession(sessionId: string, options?: RecoverOptions): Promise<RecoverResult>
  /**
   * Sets or replaces the label of a checkpoint; `null` removes it. The checkpoint itself is not rewritten.
   *
   * With `unique`, the result has the code `WAYMARK_EXISTS` if another checkpoint of the session has the label.
   */
  labelCheckpoint(sessionId: string, checkpointId: string, label: string | null, options?: LabelOptions): Promise<CheckpointResult>
  /** The newest checkpoint of a session that has a label, or `null`. */
  getCheckpointByLabel(sessionId: string, label: string): Promise<Checkpoint | null>
  /** Exempts a checkpoint from retention: it is kept until it is unpinned or deleted, and does not count towards limits. */
  pinCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /** Makes a checkpoint subject to retention again, which is applied with the next checkpoint or by `prune()`. */
  unpinCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /**
   * Creates a new session from a checkpoint of another session, for example to try a different continuation.
   *
   * The new session has the state, the agents and the context of that checkpoint, a first checkpoint of its own, and a
   * `forkedFrom`. The source is not changed. The result has the code `WAYMARK_EXISTS` if the new session exists.
   */
  forkSession(options: ForkOptions): Promise<ForkResult>
  /**
   * The checkpoints of a session as a tree: each names its parent, its children, and the sessions that were forked from it.
   *
   * The tree is a flat list, newest first, because the chain of parents may be thousands long.
   */
  history(sessionId: string): Promise<SessionHistory>
  /**
   * Sets the retention of a session, which replaces that of the store; `null` returns to the retention of the store.
   *
   * It is stored with the session, and every store that writes to the session uses it. It is applied with the next checkpoint or
   * by `prune()`.
   */
  setRetention(sessionId: string, retention: Retention | null): Promise<void>
  /** The retention that was set for a session; `null` if the session has that of the store. */
  getRetention(sessionId: string): Promise<Retention | null>
  /**
   * Deletes the checkpoints that retention does not keep, of one session or of all, and reports which and why. With `dryRun` it
   * only reports.
   *
   * The retention of a session replaces that of the store, and `options.retention` replaces both. Agents keep
   * `maxCheckpointsPerAgent` checkpoints. Rejects with `WAYMARK_NOT_FOUND` if the session does not exist.
   */
  prune(sessionId?: string, options?: PruneOptions): Promise<PruneResult>
  prune(options: PruneOptions): Promise<PruneResult>
  /**
   * Stores the checkpoints of a session and of its agents in another encoding, one by one. Nothing else about them changes.
   *
   * Each checkpoint can be read at every moment. An interrupted conversion continues when it is called again. Damaged
   * checkpoints are not changed.
   */
  convert(sessionId: string, encoding: CheckpointEncoding, options?: WorkOptions): Promise<ConvertResult>
  /**
   * Writes a session into one export file, byte for byte: its document, its task tree and their earlier versions, labels,
   * results, and all checkpoints, including those of its agents. If the file exists, the call rejects with `WAYMARK_EXISTS`.
   *
   * The file is a tar in zstd: `tar --zstd -tf file` lists it, and its `manifest.json` has the SHA-256 of every member.
   * `logs/` and `damaged/` are not part of it. The file appears under its name when it is complete and durable.
   */
  exportSession(sessionId: string, file: string, options?: ExportOptions): Promise<ExportResult>
  /**
   * Imports an export file, from this backend or another, in one step. If the session exists, the call rejects with
   * `WAYMARK_EXISTS`; `as` gives the new session another id.
   *
   * The whole file is verified before the session becomes visible. If it is damaged or was not written by `exportSession()`, the
   * call rejects with `WAYMARK_CORRUPT`.
   */
  importSession(file: string, options?: ImportOptions): Promise<ImportResult>
}

/** The result of a write. */
export interface CheckpointResult {
  success: boolean
  checkpointId?: string
  /** Where it is stored: a file, or on other backends a stable name. */
  path?: string
  sizeBytes?: number
  /** The message of the failure, for people. */
  error?: string
  /** The code of the failure, for programs: one of the codes in the README. */
  code?: WaymarkErrorCode
  /** The cause of the failure: what the value threw, or the system's error with its own `code`, such as `ENOSPC`. */
  cause?: unknown
  /** What failed after the write was durable, such as the removal of an old checkpoint. */
  warnings?: Array<string>
  /** Of `saveSession()`: the `ifRevision` for the next save. It is valid until another program saves the session. */
  revision?: string
  /** With `WAYMARK_CONFLICT`: the stored revision, or the id of the newest checkpoint; `null` if there is none. */
  current?: string | null
}

/** The verification of a checkpoint. */
export interface CheckpointVerification {
  id: string
  path: string
  /** Whether it is complete and undamaged. */
  whole: boolean
  /** The bytes that it takes up, if it is whole. */
  sizeBytes?: number
  /** When a damaged checkpoint was created, in epoch milliseconds, if that is known. */
  timestamp?: number
  /** The message of the failure, for people. */
  error?: string
  /** The code of the failure, for programs. */
  code?: WaymarkErrorCode
}

/** The result of `convert()`. */
export interface ConvertResult {
  sessionId: string
  /** The requested encoding. */
  encoding: CheckpointEncoding
  /** The number of checkpoints whose encoding was changed. */
  converted: number
  /** The number of checkpoints that had the encoding already. */
  unchanged: number
  /**
   * The checkpoints that were left unchanged, with the reason: damaged ones, and those whose stored form does not match their
   * checksums.
   */
  skipped: Array<DamagedCheckpoint>
  /** The bytes that the session took up before. */
  bytesBefore: number
  /** The bytes that the session takes up now. */
  bytesAfter: number
}

/** The result of `copyTo()`. */
export interface CopyResult {
  /** The ids of the sessions that both stores have now. */
  sessions: Array<string>
  /** The number of checkpoints that were copied, of sessions and agents. */
  checkpoints: number
  /** The number of other items that were copied: sessions, task trees, results, lists of labels, retentions. */
  documents: number
  /** The number of checkpoints and other items that the other store had already. */
  unchanged: number
  /** The bytes that were copied. */
  sizeBytes: number
}

/** A checkpoint that exists, but cannot be read or is not what the store wrote. */
export interface DamagedCheckpoint {
  id: string
  path: string
  /** When it was created, by its id, or else by the time of its file. Absent if neither is known. */
  timestamp?: number
  /** The message of the failure, for people. */
  error: string
  /** The code of the failure, for programs. */
  code: WaymarkErrorCode
}

/** A session that `expireSessions()` could not archive or delete. */
export interface ExpireFailure {
  sessionId: string
  /** The message of the failure, for people. */
  error: string
  /** The code of the failure, for programs. */
  code: WaymarkErrorCode
}

/** The result of `exportSession()`. */
export interface ExportResult {
  /** The absolute path of the file. */
  file: string
  /** The id of the exported session. */
  sessionId: string
  /** The number of checkpoints in the file, of the session and of its agents. */
  checkpoints: number
  /** The number of other items: documents with their earlier versions, labels, results. */
  documents: number
  /** The bytes of all items, as they are stored. */
  bytes: number
  /** The size of the file in bytes. */
  sizeBytes: number
}

/** The verification of a file, or of a row that has the same purpose. */
export interface FileVerification {
  path: string
  /** Whether it is complete and undamaged. */
  whole: boolean
  /** The message of the failure, for people. */
  error?: string
  /** The code of the failure, for programs. */
  code?: WaymarkErrorCode
}

/** The result of `forkSession()`. */
export interface ForkResult {
  success: boolean
  /** The id of the new session. */
  sessionId?: string
  /** The first checkpoint of the new session. */
  checkpointId?: string
  /** Where that checkpoint is stored. */
  path?: string
  restoredTasks: number
  restoredAgents: number
  /** One line for each task that was reset. */
  warnings: Array<string>
  /** The message of the failure, for people. */
  error?: string
  /** The code of the failure, for programs. */
  code?: WaymarkErrorCode
  /** The cause of the failure, such as the system's error with its own `code`. */
  cause?: unknown
}

/** The result of `importSession()`. */
export interface ImportResult {
  /** The id of the new session. */
  sessionId: string
  /** The number of checkpoints that were imported, of the session and of its agents. */
  checkpoints: number
  /** The number of other items: documents with their earlier versions, labels, results. */
  documents: number
  /** The bytes of all items, as they are in the file. */
  bytes: number
}

/** A session that was running when its state was last stored. */
export interface RecoverableSession {
  sessionId: string
  name?: string
  status: SessionStatus
  /** The newest whole checkpoint; `null` if there is none. */
  checkpoint: CheckpointInfo | null
  /** Newer checkpoints that are damaged. */
  damaged: Array<DamagedCheckpoint>
}

/** The result of `restoreCheckpoint()`. */
export interface RestoreResult {
  success: boolean
  sessionId?: string
  restoredTasks: number
  restoredAgents: number
  /** One line for each task that was reset. */
  warnings: Array<string>
  /** Present with `includeState`. */
  state?: RestoredState
  /** The message of the failure, for people. */
  error?: string
  /** The code of the failure, for programs. */
  code?: WaymarkErrorCode
  /** The cause of the failure, such as the system's error with its own `code`. */
  cause?: unknown
}

/** What a session takes up. */
export interface SessionStorageStats {
  /** The bytes of everything that is stored for the session. */
  totalSizeBytes: number
  /** The number of checkpoints of the session itself; `sessionsInfo()` also counts those of its agents. */
  checkpointCount: number
  resultCount: number
}

/** The verification of everything in a session. */
export interface SessionVerification {
  sessionId: string
  /** Whether everything in it is whole. */
  whole: boolean
  /** The checkpoints of the session itself, newest first. */
  checkpoints: Array<CheckpointVerification>
  /** The checkpoints of its agents, newest first for each. */
  agentCheckpoints: Array<AgentCheckpointVerification>
  /** The session, the task tree, labels, retention and the results, as far as they exist. */
  files: Array<FileVerification>
}

/** The progress of long-running work. */
export interface WorkProgress {
  /** The current step. `'check'` is the validation of a file before its import. */
  phase: 'export' | 'check' | 'import' | 'convert' | 'copy' | 'prune' | 'verify'
  /** The number of finished items: documents, results and checkpoints. */
  done: number
  /** The number of all items, as far as it is known. Items that are deleted meanwhile are not counted. */
  total: number
  /** The bytes of the finished items, as they are stored. */
  bytes: number
  /** The bytes of all items, if known. */
  totalBytes?: number
}
