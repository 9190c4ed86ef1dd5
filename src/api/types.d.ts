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
