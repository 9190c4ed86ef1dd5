declare global {
  interface SymbolConstructor {
    // For compilers whose `lib` does not have it yet, as @types/node does.
    readonly asyncDispose: unique symbol
  }
}

/** The parts of a session's life. */
export type SessionStatus =
  | 'initializing'
  | 'active'
  | 'paused'
  | 'resuming'
  | 'completing'
  | 'completed'
  | 'failed'
  | 'archived'

/** The parts of a task's life. */
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

/** How soon a task or an agent is served. */
export type TaskPriority = 'critical' | 'high' | 'medium' | 'low'

/** What an agent does, and what kind of agent a task needs. */
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

/** The parts of an agent's life. */
export type AgentState = 'idle' | 'starting' | 'running' | 'waiting' | 'stopping' | 'stopped' | 'failed' | 'recovering'

/** Why a checkpoint was made. */
export type CheckpointTrigger = 'auto' | 'manual' | 'error' | 'milestone'

/** `T` with only the members `K` required. */
export type AtLeast<T, K extends keyof T> = Partial<T> & Pick<T, K>

/** Something that a task produced. */
export interface TaskArtifact {
  type: 'file' | 'code' | 'document' | 'test' | 'other'
  path?: string
  content?: string
  description: string
}

/** What a task cost. */
export interface TaskResultMetrics {
  executionTimeMs: number
  tokensUsed?: number
  apiCalls?: number
  filesModified?: number
  testsRun?: number
  testsPassed?: number
}

/** Why a task failed. */
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

/** An agent of the swarm, and how it is doing. */
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

/** Something that went wrong in a session. */
export interface SessionError {
  timestamp: number
  taskId?: string
  agentId?: string
  code: string
  message: string
  severity: 'warning' | 'error' | 'critical'
  recovered: boolean
}

/** The limits within which a swarm works. */
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
  /** Where it was started from, by `forkSession()`. */
  forkedFrom?: CheckpointReference
}

/** How a checkpoint is made. */
export interface CheckpointOptions {
  trigger: CheckpointTrigger
  description?: string
  /** Store the context too; without it the checkpoint's `contextStore` is empty. */
  includeContext: boolean
  /** `true` is short for `encoding: 'gzip'`; `false` asks for nothing. */
  compress: boolean
  /** How it is stored; the store's `encoding` if it is left out. */
  encoding?: CheckpointEncoding
  /** A name to find it by, of 1 to 200 bytes. */
  label?: string
  /** Refuse a label that another checkpoint of the session has. */
  uniqueLabel?: boolean
  /** Store it only if this is the newest checkpoint of the session; `null` if it must be the first. */
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
  /** The bytes that it takes up where it is stored. */
  sizeBytes: number
  metadata?: Record<string, unknown>
  /** How many tasks the tree has. Checkpoints of the original store have none of this and what follows. */
  taskCount?: number
  /** How many agents there are states of. */
  agentCount?: number
  /** The name that it was given. */
  label?: string
  /** The checkpoint that the session had made before: its `lastCheckpointId` at that time. */
  parent?: string
  /** SHA-256 of all other members. */
  integrity?: string
}

/**
 * How the bytes of a stored checkpoint spell its JSON.
 *
 * - `'json'`: as the original store writes it, and reads it.
 * - `'gzip'`: likewise, compressed.
 * - `'zstd'`: about as small as gzip, in half the time.
 * - `'delta'`: the difference from a text that it shares with other checkpoints of the session (or of the agent), their
 *   key. Of checkpoints that are nearly the same, each takes up little more than what changed.
 */
export type CheckpointEncoding = 'json' | 'gzip' | 'zstd' | 'delta'

/** What is known of a checkpoint without reading its payload. */
export interface CheckpointInfo {
  id: string
  timestamp: number
  trigger: CheckpointTrigger
  description?: string
  /** The name that it was given. */
  label?: string
  /** The checkpoint that the session had made before. */
  parent?: string
  taskCount: number
  agentCount: number
  /** The bytes that it takes up where it is stored. */
  sizeBytes: number
  encoding: CheckpointEncoding
  /** Present if retention leaves it alone. */
  pinned?: true
}

/** Which checkpoints are wanted; what is left out does not matter. */
export interface CheckpointFilter {
  trigger?: CheckpointTrigger
  label?: string
  /** Not older than this: epoch milliseconds, or a Date. */
  since?: number | Date
  /** Not newer than this: epoch milliseconds, or a Date. */
  until?: number | Date
}

/** What `listCheckpointInfo()` shows. */
export interface CheckpointInfoOptions extends CheckpointFilter {
  /** How many at most; 0 or absent means all. */
  limit?: number
  /** Where an earlier page ended: its `cursor`. */
  cursor?: string
}

/** What `checkpoints()` walks over. */
export interface CheckpointIterationOptions extends CheckpointFilter {
  /** Pass over damaged checkpoints instead of rejecting. */
  skipDamaged?: boolean
}

/** A page of what is known of checkpoints, newest first. */
export interface CheckpointInfoList {
  checkpoints: CheckpointInfo[]
  /** How many checkpoints the session has, whatever the filter, readable or not. */
  total: number
  /** Asks for the next page; absent on the last. */
  cursor?: string
  /** Those about which nothing could be found out. */
  damaged: DamagedCheckpoint[]
}

/** What is known of a checkpoint, and whose it is. */
export interface SessionCheckpointInfo extends CheckpointInfo {
  sessionId: string
}

/** A page of what is known of the checkpoints of all sessions, newest first. */
export interface AllCheckpointInfoList {
  checkpoints: SessionCheckpointInfo[]
  /** How many checkpoints there are in all sessions, whatever the filter, readable or not. */
  total: number
  /** Asks for the next page; absent on the last. */
  cursor?: string
  /** Those about which nothing could be found out. */
  damaged: DamagedCheckpoint[]
}

/** What is known of a session without reading its checkpoints. */
export interface SessionInfo {
  id: string
  /** Absent, as are the next ones, if the session was never saved or its document is damaged. */
  name?: string
  status?: SessionStatus
  createdAt?: number
  expiresAt?: number
  /** Where it was forked from. */
  forkedFrom?: CheckpointReference
  /** What the session's own metrics say. */
  tasks?: { total?: number; completed?: number; failed?: number; pending?: number; inProgress?: number }
  /** What is wrong with the session's document. */
  damaged?: string
  /** Checkpoints of the session itself. */
  checkpointCount: number
  /** Those among them that retention leaves alone. */
  pinnedCount: number
  /** Checkpoints of its agents. */
  agentCheckpointCount: number
  newestCheckpoint?: { id: string; timestamp: number }
  /** Everything below the session. */
  sizeBytes: number
  /** Who owns it now, until when, and under which number. */
  lease?: { owner: string; number: number; expiresAt: number }
}

/** What becomes of sessions that are past their time. */
export interface ExpireOptions {
  /** `'archive'` unless said otherwise. */
  action?: 'archive' | 'delete'
}

/** A session that was past its time. */
export interface ExpiredSession {
  sessionId: string
  /** What it was before; `null` if it had none. */
  status: SessionStatus | null
  expiresAt: number
  action: 'archived' | 'deleted'
}

/** A session that `expireSessions()` could not archive or delete. */
export interface ExpireFailure {
  sessionId: string
  /** What went wrong, for people. */
  error: string
  /** What went wrong, for programs. */
  code: WaymarkErrorCode
}

/** What `expireSessions()` rejects with if some sessions could not be archived or deleted. */
export interface ExpireSessionsError extends Error {
  /** That of the first failure, which is the `cause`. */
  code: WaymarkErrorCode
  /** The sessions that were archived or deleted all the same. */
  expired: ExpiredSession[]
  /** Those that were not. Calling it again tries again. */
  failed: ExpireFailure[]
}

/** A session that somebody worked on when the last state was stored. */
export interface RecoverableSession {
  sessionId: string
  name?: string
  status: SessionStatus
  /** The newest checkpoint that is whole; `null` if there is none. */
  checkpoint: CheckpointInfo | null
  /** Newer ones that are not. */
  damaged: DamagedCheckpoint[]
}

/** What `copyTo()` takes along. */
export interface CopyOptions extends WorkOptions {
  /** This session alone; all of them without it. */
  sessionId?: string
}

/** What `copyTo()` did. */
export interface CopyResult {
  /** The sessions that are now in both places. */
  sessions: string[]
  /** How many checkpoints were copied, of sessions and agents. */
  checkpoints: number
  /** How many sessions, task trees, results, lists of labels and retentions were copied. */
  documents: number
  /** How many of either were there already. */
  unchanged: number
  /** The bytes that were copied. */
  sizeBytes: number
}

/**
 * Which checkpoints of a session stay. The newest always does, and so do pinned ones, which are not counted.
 *
 * If at least one of `keepLast`, `keepHourly` and `keepDaily` is given, those stay that any of them keeps; if none is, all do.
 * The limits below come on top. All numbers are whole, and go up to 2^53 - 1.
 */
export interface Retention {
  /** The newest so many. */
  keepLast?: number
  /** The newest of each of the last so many hours that have one. */
  keepHourly?: number
  /** The newest of each of the last so many days that have one. Days begin at midnight UTC. */
  keepDaily?: number
  /** Those that are older than so many milliseconds go. */
  maxAgeMs?: number
  /** The oldest go until all checkpoints of the session, pinned and labelled ones included, take no more bytes than that. */
  maxBytes?: number
  /** Whether those with a label stay, whatever the rest says. Default `true`. */
  keepLabelled?: boolean
}

/** What `prune()` does. */
export interface PruneOptions extends WorkOptions {
  /** Only say what would go; nothing is changed. */
  dryRun?: boolean
  /** Instead of what is in force for the sessions. */
  retention?: Retention
}

/** A checkpoint that `prune()` removed, or would remove. */
export interface PrunedCheckpoint {
  sessionId: string
  /** Present if it is one of an agent. */
  agentId?: string
  checkpointId: string
  /** When it was made, by its id, in epoch milliseconds. */
  timestamp: number
  /** The bytes that it took up where it was stored. */
  sizeBytes: number
  /** Why it does not stay, for people, such as `older than maxAgeMs (86400000)`. */
  reason: string
}

/** Something that `prune()` could not do. */
export interface PruneFailure {
  /** Whose checkpoints stayed; absent if it is the whole store that could not give back space. */
  sessionId?: string
  /** Present if it concerns an agent. */
  agentId?: string
  /** Present if it concerns one checkpoint, which stayed. */
  checkpointId?: string
  /** What went wrong, for people. */
  error: string
  /** What went wrong, for programs. */
  code: WaymarkErrorCode
}

/** What `prune()` did, or with `dryRun` would do. */
export interface PruneResult {
  /** Whether it was only asked what would go. */
  dryRun: boolean
  /** Those that are gone for good: for each session and agent the oldest first. */
  removed: PrunedCheckpoint[]
  /** How many checkpoints are left in the sessions that were looked at, those of their agents included. */
  kept: number
  /** The bytes of all that were removed. */
  freedBytes: number
  /** What could not be done; the rest was. Calling it again tries again. */
  failed: PruneFailure[]
}

/** How a label is given. */
export interface LabelOptions {
  /** Refuse a label that another checkpoint of the session has. */
  unique?: boolean
}

/** Where a new session starts from. */
export interface ForkOptions {
  sessionId: string
  checkpointId: string
  /** The id of the new session, which must not exist. */
  newSessionId: string
  /** Send failed tasks back to `pending`, with their retries and results cleared. */
  resetFailedTasks?: boolean
  /** Send interrupted tasks back to `pending`. */
  resetInProgressTasks?: boolean
}

/** What `forkSession()` did. */
export interface ForkResult {
  success: boolean
  /** The new session. */
  sessionId?: string
  /** Its first checkpoint. */
  checkpointId?: string
  /** Where that is stored. */
  path?: string
  restoredTasks: number
  restoredAgents: number
  /** One line for each task that was reset. */
  warnings: string[]
  /** What went wrong, for people. */
  error?: string
  /** What went wrong, for programs. */
  code?: WaymarkErrorCode
  /** What was behind it, such as the system's error with its own `code`. */
  cause?: unknown
}

/** A checkpoint in the tree of a session. */
export interface HistoryCheckpoint extends CheckpointInfo {
  /** The checkpoints that were made from this one, oldest first. */
  children: string[]
  /** The sessions that were forked from this one. */
  forks: string[]
}

/** The tree of a session's checkpoints. Those whose `parent` is absent, or gone, are its roots. */
export interface SessionHistory {
  sessionId: string
  /** Where the session itself was forked from. */
  forkedFrom?: CheckpointReference
  /** Newest first. */
  checkpoints: HistoryCheckpoint[]
  /** The ids of those about which nothing could be found out. */
  damaged: string[]
}

/** Which version of a document is wanted. */
export interface LoadOptions {
  /** 0, or absent, for the current one; -1 for the one before, and so on, as far as `keepPrevious` kept them. */
  version?: number
}

/** On what condition a session is saved. */
export interface SaveOptions {
  /** Save it only over the session of this revision; `null` if there must be none yet. */
  ifRevision?: string | null
}

/** One message of an agent's conversation, with whatever else the caller puts there. */
export interface AgentMessage {
  role: string
  content: unknown
  [member: string]: unknown
}

/** A tool that an agent called. */
export interface AgentToolCall {
  toolName: string
  arguments: unknown
  result?: unknown
  success: boolean
  [member: string]: unknown
}

/** How an agent is doing. */
export type AgentStatus = 'in_progress' | 'completed' | 'failed' | 'halted'

/** What an agent needs to go on. Members of your own are kept. */
export interface AgentSnapshot {
  /** The step that it has reached. */
  iteration?: number
  messages?: AgentMessage[]
  toolCalls?: AgentToolCall[]
  /** Calls that were asked for, but have no result yet. */
  pendingToolCalls?: unknown[]
  partialResults?: unknown[]
  status?: AgentStatus
  /** Why it failed or was halted. */
  statusReason?: string
  tokensUsed?: number
  costEstimate?: number
  /** What whoever resumes it should know. */
  resumeHint?: string
  /** A name to find it by. */
  label?: string
  metadata?: Record<string, unknown>
  /** After so many milliseconds the checkpoint is out of date: lists pass over it, and `prune()` of the agent removes it. */
  ttlMs?: number
  /** Bytes of your own. They come back as the same bytes. */
  context?: Uint8Array
  [member: string]: unknown
}

/** A stored state of an agent. */
export interface AgentCheckpoint extends AgentSnapshot {
  id: string
  sessionId: string
  agentId: string
  timestamp: number
  messages: AgentMessage[]
  toolCalls: AgentToolCall[]
  /** When it goes out of date, if it has a `ttlMs`. */
  expiresAt?: number
  version: string
  /** The bytes that it takes up where it is stored. */
  sizeBytes: number
  messageCount: number
  toolCallCount: number
  /** SHA-256 of all other members. */
  integrity: string
  /** Of `latest()` only: newer ones that are damaged. */
  passedOver?: DamagedCheckpoint[]
}

/** What is known of an agent's checkpoint without reading its payload. */
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
  /** The bytes that it takes up where it is stored. */
  sizeBytes: number
  encoding: CheckpointEncoding
}

/** How an agent's state is stored. */
export interface AgentSaveOptions {
  /** `true` is short for `encoding: 'gzip'`. */
  compress?: boolean
  /** How it is stored; the store's `encoding` if it is left out. */
  encoding?: CheckpointEncoding
}

/** Which of an agent's checkpoints are wanted. */
export interface AgentListOptions {
  /** The newest first, unless `'iteration'` asks for the lowest iteration first. */
  order?: 'newest' | 'iteration'
  /** How many at most; 0 or absent means all. */
  limit?: number
  /** Where an earlier page in the same order ended: its `cursor`. */
  cursor?: string
}

/** A page of an agent's checkpoints. */
export interface AgentCheckpointList {
  checkpoints: AgentCheckpoint[]
  /** How many there are that have not expired, without the paging, readable or not. */
  total: number
  /** Asks for the next page; absent on the last. */
  cursor?: string
  damaged: DamagedCheckpoint[]
}

/** A page of what is known of an agent's checkpoints. */
export interface AgentCheckpointInfoList {
  checkpoints: AgentCheckpointInfo[]
  /** How many there are that have not expired, without the paging, readable or not. */
  total: number
  /** Asks for the next page; absent on the last. */
  cursor?: string
  damaged: DamagedCheckpoint[]
}

/** What a write tells its caller. */
export interface CheckpointResult {
  success: boolean
  checkpointId?: string
  /** Where it is stored: a file, or for other places a stable name. */
  path?: string
  sizeBytes?: number
  /** What went wrong, for people. */
  error?: string
  /** What went wrong, for programs: one of the codes in the README. */
  code?: WaymarkErrorCode
  /** What was behind it: what the value threw, or the system's error with its own `code`, such as `ENOSPC`. */
  cause?: unknown
  /** What went wrong after the write was safe, such as an old checkpoint that could not be removed. */
  warnings?: string[]
  /** Of `saveSession()`: what `ifRevision` of the next save must be, unless somebody else saves in between. */
  revision?: string
  /** With `WAYMARK_CONFLICT`: the revision, or the newest checkpoint, that is there now; `null` if there is none. */
  current?: string | null
}

/** A checkpoint that is there, but cannot be read. */
export interface DamagedCheckpoint {
  id: string
  path: string
  /** When it was made, as its id says, or else its file: its place among the others. Absent if neither could be asked. */
  timestamp?: number
  /** Why, for people. */
  error: string
  /** Why, for programs. */
  code: WaymarkErrorCode
}

/** A page of checkpoints, newest first. */
export interface CheckpointList {
  checkpoints: Checkpoint[]
  /** How many there are without the paging, readable or not. */
  total: number
  /** Those of this page that could not be read. */
  damaged: DamagedCheckpoint[]
}

/** What `restoreCheckpoint()` does besides writing the session and the task tree. */
export interface RestoreOptions {
  checkpointId: string
  /** Where the checkpoint is. Without it all sessions are looked through. */
  sessionId?: string
  /** Refuse a checkpoint whose data do not fit its checksums. */
  validateChecksum: boolean
  /** Send failed tasks back to `pending`, with their retries and results cleared. */
  resetFailedTasks: boolean
  /** Send interrupted tasks back to `pending`. */
  resetInProgressTasks: boolean
  /** Hand back what was restored, with the agent states and the context. */
  includeState?: boolean
}

/** What a restored checkpoint held, after the resets. */
export interface RestoredState {
  session: Omit<SwarmSession, 'taskTree'>
  taskTree: Record<string, HierarchicalTask>
  agentStates: Record<string, SwarmAgentConfig>
  contextStore: Record<string, unknown>
}

/** What `restoreCheckpoint()` did. */
export interface RestoreResult {
  success: boolean
  sessionId?: string
  restoredTasks: number
  restoredAgents: number
  /** One line for each task that was reset. */
  warnings: string[]
  /** Present with `includeState`. */
  state?: RestoredState
  /** What went wrong, for people. */
  error?: string
  /** What went wrong, for programs. */
  code?: WaymarkErrorCode
  /** What was behind it, such as the system's error with its own `code`. */
  cause?: unknown
}

/** Whether a checkpoint is whole. */
export interface CheckpointVerification {
  id: string
  path: string
  whole: boolean
  /** The bytes that it takes up, if it is whole. */
  sizeBytes?: number
  /** What is wrong, for people. */
  error?: string
  /** What is wrong, for programs. */
  code?: WaymarkErrorCode
}

/** Whether a file is what it should be. */
export interface FileVerification {
  path: string
  whole: boolean
  /** What is wrong, for people. */
  error?: string
  /** What is wrong, for programs. */
  code?: WaymarkErrorCode
}

/** Whether an agent's checkpoint is whole. */
export interface AgentCheckpointVerification extends CheckpointVerification {
  agentId: string
}

/** Whether everything in a session is whole. */
export interface SessionVerification {
  sessionId: string
  /** Whether all of it is. */
  whole: boolean
  /** Newest first. */
  checkpoints: CheckpointVerification[]
  /** Those of its agents, newest first for each. */
  agentCheckpoints: AgentCheckpointVerification[]
  /** The session, the task tree, labels, retention and the results, as far as they exist. */
  files: FileVerification[]
}

/** What `recoverSession()` does besides restoring; everything is off unless it is asked for. */
export interface RecoverOptions {
  /** Send failed tasks back to `pending`, with their retries and results cleared. */
  resetFailedTasks?: boolean
  /** Send interrupted tasks back to `pending`. */
  resetInProgressTasks?: boolean
  /** Hand back what was restored, with the agent states and the context. */
  includeState?: boolean
  /** Move damaged checkpoints into the session's `damaged/`. */
  quarantine?: boolean
  /** Only say what would be done: nothing is written, and nothing is moved. */
  dryRun?: boolean
}

/** A checkpoint that `recoverSession()` passed over. */
export interface PassedOverCheckpoint extends DamagedCheckpoint {
  /** Where it was moved to, with `quarantine`. */
  movedTo?: string
}

/** What `recoverSession()` did. */
export interface RecoverResult extends RestoreResult {
  /** The checkpoint that was restored. */
  checkpointId?: string
  /** Newer ones that are not whole, and why. */
  passedOver: PassedOverCheckpoint[]
}

/** The full name of a checkpoint. */
export interface CheckpointReference {
  sessionId: string
  checkpointId: string
}

/** One of the two checkpoints that were compared. */
export interface ComparedCheckpoint extends CheckpointReference {
  /** When it was made, in epoch milliseconds. */
  timestamp: number
}

/** Something that both checkpoints have, but not alike. */
export interface MemberChange {
  id: string
  /**
   * The members that differ, added and removed ones included. Empty if one of the two is no object, and so differs as
   * a whole.
   */
  members: string[]
}

/** A task that both checkpoints have, but not alike. */
export interface TaskChange extends MemberChange {
  /** Present if the status differs; `null` where the task has none. */
  status?: { from: string | null; to: string | null }
}

/** What changed from one checkpoint to another. */
export interface CheckpointDiff {
  /** The checkpoint before. */
  a: ComparedCheckpoint
  /** The checkpoint after. */
  b: ComparedCheckpoint
  /** Whether all lists below are empty. */
  identical: boolean
  /** Ids of tasks in the order of their tree: that of `a` for removed ones, that of `b` for all others. */
  tasks: { added: string[]; removed: string[]; changed: TaskChange[] }
  /** Ids of agents. */
  agents: { added: string[]; removed: string[]; changed: MemberChange[] }
  /** Keys of the context, which is empty in a checkpoint that was made without `includeContext`. */
  context: { added: string[]; removed: string[]; changed: string[] }
  /**
   * The members of the session that differ, added and removed ones included, but for `lastCheckpointId` and
   * `checkpointIds`, which always do.
   */
  session: string[]
}

/** What a session takes up. */
export interface SessionStorageStats {
  /** Every file below the session. */
  totalSizeBytes: number
  /** Checkpoints of the session itself; `sessionsInfo()` counts those of its agents too. */
  checkpointCount: number
  resultCount: number
}

/** How a store works. */
export interface CheckpointStoreOptions {
  /**
   * How many checkpoints a session keeps; the oldest go first. `Infinity` keeps all. Default 100, unless there is a
   * retention; together with one, it is one more limit.
   */
  maxCheckpointsPerSession?: number
  /** Which checkpoints of each session stay; `setRetention()` says otherwise for one of them. Agents are not concerned. */
  retention?: Retention
  /** How many checkpoints of its own an agent keeps; the oldest go first. Default 100; `Infinity` keeps all. */
  maxCheckpointsPerAgent?: number
  /** How many earlier versions of each session and task tree stay for `loadSession()` and `loadTaskTree()`. Default 0. */
  keepPrevious?: number
  /**
   * `'full'` (default): an acknowledged write survives a power cut. `'relaxed'`: it survives the process only;
   * quicker, for caches and tests. Writes are atomic either way.
   */
  durability?: 'full' | 'relaxed'
  /**
   * Whether `initialize()` rejects with `WAYMARK_NOT_FOUND` where there is no store yet, instead of making one: for those who only
   * look. Default `false`.
   */
  mustExist?: boolean
  /** The most bytes that anything stored may have when it is read, inflated. Default 1 GiB. */
  maxReadBytes?: number
  /** How checkpoints are stored that do not say it themselves; `'json'` by default. */
  encoding?: CheckpointEncoding
  /**
   * How many bytes of text are kept in memory for checkpoints that are stored as `'delta'`; 64 MiB by default. With less than
   * one checkpoint of each session that is written to, they have to be read again for each.
   */
  deltaCacheBytes?: number
  /**
   * How many milliseconds a call waits for a lock that another process holds before it fails with `WAYMARK_BUSY`; 10,000 by
   * default. On PostgreSQL: how many milliseconds a call to the server may take in all, with waiting for a connection and trying
   * again; an import or a fork may take as long for each thing in it.
   */
  timeoutMs?: number
  /** On PostgreSQL: how many connections the store has at most; 10 by default. Calls wait until one is free. */
  maxConnections?: number
}

/** What `convert()` did. */
export interface ConvertResult {
  sessionId: string
  /** What it was asked for. */
  encoding: CheckpointEncoding
  /** How many checkpoints are in another encoding now. */
  converted: number
  /** How many were in that encoding already. */
  unchanged: number
  /** Those that were left as they are, and why: what is damaged, or does not fit its checksums as it is spelt. */
  skipped: DamagedCheckpoint[]
  /** What the session took up. */
  bytesBefore: number
  /** What it takes up now. */
  bytesAfter: number
}

/** How far long work is. */
export interface WorkProgress {
  /** What is being done: an import is checked first. */
  phase: 'export' | 'check' | 'import' | 'convert' | 'copy' | 'prune' | 'verify'
  /** How many items are done: documents, results and checkpoints. */
  done: number
  /** How many there are in all, as far as that is known: what goes away meanwhile is not counted any more. */
  total: number
  /** The bytes of those that are done, as they are stored. */
  bytes: number
  /** The bytes of all of them, if that is known. */
  totalBytes?: number
}

/** What this package needs of an `AbortSignal`, so that its types need no library of others. */
export interface StopSignal {
  readonly aborted: boolean
  readonly reason?: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** The `AbortSignal` of the runtime, where its types are at hand. */
export type RuntimeSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } } ? Signal : StopSignal

/** How long work is watched and stopped. */
export interface WorkOptions {
  /**
   * Is told how far the work is: twenty times a second at most, once more when it is done, and never after the promise is
   * settled. What it throws stops the work, and is what the promise rejects with.
   */
  onProgress?: (progress: WorkProgress) => void
  /**
   * An `AbortSignal` that stops the work: the promise rejects with an `AbortError` whose `code` is `'ABORT_ERR'` and whose
   * `cause` is the reason of the signal. Of an export or an import nothing is left then; what a copy, a conversion or a
   * pruning has done already stays done, and the next one goes on from there.
   */
  signal?: StopSignal
}

/** How `exportSession()` is watched and stopped. */
export type ExportOptions = WorkOptions

/** What `exportSession()` wrote. */
export interface ExportResult {
  /** The absolute path of the file. */
  file: string
  /** The session that is in it. */
  sessionId: string
  /** How many checkpoints are in it, of the session and of its agents. */
  checkpoints: number
  /** How many other items: documents with their earlier versions, labels, results. */
  documents: number
  /** The bytes of all of them, as they are stored. */
  bytes: number
  /** The bytes of the file. */
  sizeBytes: number
}

/** Under which id `importSession()` brings a session in, and how it is watched and stopped. */
export interface ImportOptions extends WorkOptions {
  /**
   * Another id for the session. Its document, and earlier versions of it, get that `id`; everything else comes in byte for
   * byte.
   */
  as?: string
}

/** What `importSession()` brought in. */
export interface ImportResult {
  /** The id of the new session. */
  sessionId: string
  /** How many checkpoints came in, of the session and of its agents. */
  checkpoints: number
  /** How many other items: documents with their earlier versions, labels, results. */
  documents: number
  /** The bytes of all of them, as they are in the file. */
  bytes: number
}

/** What can happen in an agent's loop that a policy has an opinion about. */
export type CheckpointEventType = 'tool_call' | 'model_response' | 'iteration' | 'error' | 'timer'

/** What happened: its name, or its name with the milliseconds since the last checkpoint. */
export type CheckpointEvent = CheckpointEventType | { type: CheckpointEventType; elapsedMs?: number }

/**
 * Says when a checkpoint is due. Policies never change and remember nothing: one can serve many sessions.
 *
 * What makes them throws an `Error` with the code `WAYMARK_INVALID_ARGUMENT` for arguments that make no sense.
 */
export declare class CheckpointPolicy {
  private constructor()
  /** After each call of a tool: the event `'tool_call'`. */
  static afterToolCall(): CheckpointPolicy
  /** After each answer of a model: the event `'model_response'`. */
  static afterModelResponse(): CheckpointPolicy
  /** After every `n`-th iteration: the event `'iteration'`. `n` is a whole number, 1 or more. */
  static everyIterations(n: number): CheckpointPolicy
  /** At the first event, whatever it is, that comes `ms` milliseconds or more after the last checkpoint. */
  static everyMs(ms: number): CheckpointPolicy
  /** After each failure: the event `'error'`. */
  static onError(): CheckpointPolicy
  /** Not at any event. */
  static never(): CheckpointPolicy
  /** Whenever one of these says so; at least one is needed. */
  static anyOf(...policies: CheckpointPolicy[]): CheckpointPolicy
  /** Whether a checkpoint is due at this event; throws for an event that it does not know. */
  shouldCheckpoint(iteration: number, event: CheckpointEvent): boolean
}

/** What is stored by a checkpoint that is taken by itself. */
export interface CapturedState {
  session: SwarmSession
  agentStates?: Map<string, SwarmAgentConfig> | Record<string, SwarmAgentConfig>
  contextStore?: Map<string, unknown> | Record<string, unknown>
}

/** What `autoCheckpoint()` stores, and when: `everyMs`, `policy` or both are needed. */
export interface AutoCheckpointOptions {
  /** The session that is captured; any other is refused. */
  sessionId: string
  /** Take one every so many milliseconds. The timer does not keep the process alive. */
  everyMs?: number
  /** Says at which of the events that `notify()` is told of one is taken. */
  policy?: CheckpointPolicy
  /**
   * Hands over the state at this moment. It must not wait for a checkpoint of its own `AutoCheckpoint`, which waits
   * for it.
   */
  capture: () => CapturedState | Promise<CapturedState>
  /**
   * How many milliseconds a promise of `capture` may take, 60,000 by default; `Infinity` is no limit. One that takes longer has
   * failed with `WAYMARK_INVALID_ARGUMENT` and a `cause` of the code `ETIMEDOUT`, and what it resolves to later is ignored. So
   * `stop()` waits for at most two captures and two saves. The timer does not keep the process alive.
   */
  captureTimeoutMs?: number
  /** How each checkpoint is made. `trigger` is `'auto'` and `includeContext` is `true` unless they say otherwise. */
  options?: Partial<CheckpointOptions>
  /**
   * Is told of each failure; the next checkpoint is taken all the same. Without it, `now()`, `notify()` and `stop()`
   * reject, and failures on the timer are warnings of the process.
   */
  onError?: (error: WaymarkError) => void
}

/** Takes checkpoints of one session by itself, never two at once: see `autoCheckpoint()`. */
export declare class AutoCheckpoint {
  private constructor()
  /** What the last checkpoint that succeeded told, if there is one. */
  get last(): CheckpointResult | undefined
  /** How many checkpoints succeeded. */
  get taken(): number
  /** Whether `stop()` was called. */
  get isStopped(): boolean
  /**
   * Asks the policy, and takes a checkpoint if it says so. Resolves to its result, or to `undefined` if none was taken.
   *
   * `iteration` is the last one that was told if it is left out, and 0 at first. The time since the last checkpoint is
   * measured here. If a checkpoint is under way, one more is taken after it, for all who ask meanwhile.
   */
  notify(event: CheckpointEvent, iteration?: number): Promise<CheckpointResult | undefined>
  /**
   * Takes a checkpoint, whatever the policy says. Resolves to its result, or to `undefined` if it failed.
   *
   * `options` are for this one. If a checkpoint is under way, one more is taken after it, for all who ask meanwhile; where
   * their options differ, the last word counts.
   */
  now(options?: Partial<CheckpointOptions>): Promise<CheckpointResult | undefined>
  /**
   * Ends the timer, waits for the checkpoint under way, and takes a last one. Resolves to its result, or to `undefined` if
   * it failed. From now on `now()` and `notify()` reject with `WAYMARK_CLOSED`.
   */
  stop(): Promise<CheckpointResult | undefined>
  /** `stop()`, for `await using auto = …`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** What somebody asks for who wants to own a session. */
export interface AcquireOptions {
  /** Who it is for, in 1 to 200 bytes: for people, and for whoever else asks. The machine, the process and a random part. */
  owner?: string
  /**
   * How long the session stays owned when its owner is gone, in milliseconds, from 50 to a day; 30,000 by default. A living
   * owner renews three times as often.
   */
  ttlMs?: number
  /** How long to wait for a session that somebody else owns; 0 by default, `Infinity` for as long as it takes. */
  waitMs?: number
  /** Ends the waiting. */
  signal?: StopSignal
}

/** Which session `acquireNext()` takes. */
export interface AcquireNextOptions extends AcquireOptions {
  /**
   * The status that it must have, or several; by default one that somebody was at work on: `'initializing'`, `'active'`,
   * `'resuming'` or `'completing'`.
   */
  status?: SessionStatus | SessionStatus[]
}

/**
 * A session that this store owns: see `acquireSession()`.
 *
 * It is renewed by itself until it is released, or lost because the process, or its event loop, stood still for longer than
 * `ttlMs` and somebody else took the session. The timer does not keep the process alive.
 */
export declare class SessionLease {
  private constructor()
  get sessionId(): string
  get owner(): string
  /** Of two leases of a session, the later one has the greater number. Hand it to whatever else must refuse a former owner. */
  get number(): number
  /** Until when nobody else can take the session, unless it is renewed: milliseconds since 1970. */
  get expiresAt(): number
  /** Whether it is known that somebody else has taken the session. */
  get isLost(): boolean
  /** Whether `release()` was called. */
  get isReleased(): boolean
  /**
   * Aborts when the lease is known to be lost, by a renewal or because a write of its store was refused: hand it to the work that
   * must stop then. The reason is an error with the code `WAYMARK_LEASE_LOST`.
   */
  get signal(): RuntimeSignal
  /** Renews it now. Rejects with `WAYMARK_LEASE_LOST` if somebody else has taken the session. */
  renew(): Promise<void>
  /** Lets others have the session. What is lost already needs no giving back. */
  release(): Promise<void>
  /** `release()`, for `await using lease = …`. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface CheckpointStore {
  /**
   * Makes this store the only one that can write to a session, which need not exist yet, until the lease is released.
   *
   * While it is held, whoever else writes to the session gets `WAYMARK_LEASE_LOST`: other stores, and a former owner for good.
   * Reading is free for all. Rejects with `WAYMARK_LEASE_HELD`, and the `lease` that is in the way, if somebody else owns the
   * session for longer than `waitMs`; `force` takes it from them.
   */
  acquireSession(sessionId: string, options?: AcquireOptions & { force?: boolean }): Promise<SessionLease>
  /**
   * Takes any saved session that nobody owns, such as one whose owner is gone; `null` if there is none within `waitMs`.
   */
  acquireNext(options?: AcquireNextOptions): Promise<SessionLease | null>
  /**
   * Takes checkpoints of a session by itself, on a timer, when a policy says so, or both, until it is stopped.
   *
   * Throws an `Error` with the code `WAYMARK_INVALID_ARGUMENT` if an option is not what it must be.
   */
  autoCheckpoint(options: AutoCheckpointOptions): AutoCheckpoint
}

/** What promises of the store reject with. */
export interface WaymarkError extends Error {
  code: WaymarkErrorCode
}

/** The `code` of errors and failed results. A code never changes its meaning. */
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
  /** Stores the state of the agent as it is at this moment, then removes its oldest checkpoints beyond the limit. */
  save(state: AgentSnapshot, options?: AgentSaveOptions): Promise<CheckpointResult>
  /**
   * The newest checkpoint that is whole and has not expired, or `null`.
   *
   * Damaged ones that are newer are named in its `passedOver`. Rejects if there are only damaged ones.
   */
  latest(): Promise<AgentCheckpoint | null>
  /** One checkpoint, or `null`; one that has expired is still there for who knows its id, until it is pruned. */
  get(checkpointId: string): Promise<AgentCheckpoint | null>
  /** Whole checkpoints that have not expired: the newest first, or by the number of their iteration, the first one first. */
  list(options?: AgentListOptions): Promise<AgentCheckpointList>
  /** The same list without messages, tool calls and all else that may be large: nothing of it is read. */
  info(options?: AgentListOptions): Promise<AgentCheckpointInfoList>
  /** Whether there is a checkpoint that has not expired. */
  has(): Promise<boolean>
  /** Removes what has expired, and all but the newest `keep` of the rest. Resolves to how many went. */
  prune(keep: number): Promise<number>
  /** Removes all checkpoints of the agent. Resolves to how many went. */
  clear(): Promise<number>
  /**
   * Removes a checkpoint. One that does not exist is no failure; `code` is `WAYMARK_BUSY` if another process holds the lock on the
   * checkpoints for longer than `timeoutMs`.
   */
  delete(checkpointId: string): Promise<CheckpointResult>
  /** Says whether a checkpoint is whole. Rejects with `WAYMARK_NOT_FOUND` if there is none of that id. */
  verify(checkpointId: string): Promise<CheckpointVerification>
}

/** A walk over checkpoints: see `checkpoints()`. */
export declare class CheckpointIterator {
  /** The next checkpoint. */
  next(): Promise<IteratorResult<Checkpoint, undefined>>
  /** Ends the walk; `for await` calls it when it is left early. */
  return(): Promise<IteratorResult<Checkpoint, undefined>>
  /** Itself, for `for await`. */
  [globalThis.Symbol.asyncIterator](): this
}

/**
 * Keeps the sessions of an orchestrator, their checkpoints, task trees and results, in one place.
 *
 * All methods but `getBaseDir()`, `checkpoints()` and `autoCheckpoint()` are asynchronous and never throw
 * synchronously. Methods that resolve to a result object report failures in it (`success: false` with `error` and
 * `code`); all others reject with an `Error` that has a `code`. Before `initialize()` every method rejects.
 */
export declare class CheckpointStore {
  /**
   * Names a place; touches nothing yet.
   *
   * `baseDir` is a directory (`~` is the home directory, a relative path is resolved now), `sqlite:` and the path of a
   * database file, or `memory:` for a store that lives and dies with this object. A number as the second argument means
   * `maxCheckpointsPerSession`.
   */
  constructor(baseDir?: string, options?: number | CheckpointStoreOptions)
  /** Opens the store, creating the base directory if need be. Safe to call again. */
  initialize(): Promise<void>
  /**
   * Refuses new calls at once, and resolves when those under way have ended and all files and connections are closed.
   * `initialize()` opens it again.
   *
   * A database of SQLite is in one file afterwards: its log is moved into it, and what stays beside it is not needed. If another store or process reads it at that
   * moment, a part of the log may stay in the file beside it (`-wal`) until the next one closes it. If the log cannot be moved,
   * for example because the disk is full, the call rejects with `WAYMARK_IO`: the store is closed, and what is in the log is
   * not lost.
   */
  close(): Promise<void>
  /** `close()`, for `await using store = …`. */
  [globalThis.Symbol.asyncDispose](): Promise<void>
  /** The absolute base directory (or `sqlite:` and the absolute path, or `memory:`), even before `initialize()`. */
  getBaseDir(): string
  /** Makes the directories of a session. No other method needs them to be there. */
  createSessionDirectory(sessionId: string): Promise<void>
  /**
   * Stores a session without its `taskTree`, which has a file of its own: see `saveTaskTree()`.
   *
   * With `ifRevision` it happens only if the session is still the one that the caller has seen: otherwise the answer has the
   * code `WAYMARK_CONFLICT`, and the revision of what is there as `current`.
   */
  saveSession(session: SwarmSession, options?: SaveOptions): Promise<CheckpointResult>
  /**
   * The session as it was last saved or restored, or `null`; an earlier version of it, if the store keeps some.
   *
   * `withRevision` gives its revision too, for `saveSession(session, { ifRevision })`.
   */
  loadSession<S extends SwarmSession = SwarmSession>(sessionId: string, options: LoadOptions & { withRevision: true }): Promise<{ session: Omit<S, 'taskTree'>; revision: string } | null>
  loadSession<S extends SwarmSession = SwarmSession>(sessionId: string, options?: LoadOptions): Promise<Omit<S, 'taskTree'> | null>
  /** Stores the task tree of a session. A Map becomes a plain object. */
  saveTaskTree(sessionId: string, taskTree: Map<string, HierarchicalTask> | Record<string, HierarchicalTask>): Promise<CheckpointResult>
  /** The task tree as it was last saved or restored, or `null`; an earlier version of it, if the store keeps some. */
  loadTaskTree<T extends HierarchicalTask = HierarchicalTask>(sessionId: string, options?: LoadOptions): Promise<Record<string, T> | null>
  /** The ids of all saved sessions, sorted. */
  listSessions(): Promise<string[]>
  /** Removes a session and everything below it, at once. A session that does not exist is no failure. */
  deleteSession(sessionId: string): Promise<CheckpointResult>
  /**
   * Stores the state of a session as it is at this moment, then removes the oldest checkpoints beyond the limit.
   *
   * The state is read before the method returns: what the caller changes afterwards is not part of it. The short
   * form `createCheckpoint(session, options)` is for sessions without agent states and context.
   *
   * With `ifParent` it happens only if that is still the newest checkpoint of the session: otherwise the answer has the code
   * `WAYMARK_CONFLICT`, and the id of the newest as `current`.
   */
  createCheckpoint(session: SwarmSession, agentStates: Map<string, SwarmAgentConfig> | Record<string, SwarmAgentConfig>, contextStore: Map<string, unknown> | Record<string, unknown>, options: AtLeast<CheckpointOptions, 'trigger'>): Promise<CheckpointResult>
  createCheckpoint(session: SwarmSession, options: AtLeast<CheckpointOptions, 'trigger'>): Promise<CheckpointResult>
  /**
   * Whole checkpoints, newest first. `limit` 0 or absent means all; `total` ignores the paging.
   *
   * A checkpoint that cannot be read is left out and named in `damaged`; `total` still counts it.
   */
  listCheckpoints(sessionId: string, limit?: number, offset?: number): Promise<CheckpointList>
  /** One checkpoint, compressed or not, or `null`. */
  getCheckpoint(sessionId: string, checkpointId: string): Promise<Checkpoint | null>
  /** The newest checkpoint of a session, or `null`. */
  getLatestCheckpoint(sessionId: string): Promise<Checkpoint | null>
  /**
   * Writes the session and the task tree of a checkpoint back, as one step: after a crash both are old or both new.
   *
   * The checkpoint is named by `checkpointId` alone, by `sessionId` and `checkpointId`, or as
   * `session/checkpoint`. Tasks that were interrupted or failed can be sent back to `pending`; each is named in
   * `warnings`.
   */
  restoreCheckpoint(options: AtLeast<RestoreOptions, 'checkpointId'>): Promise<RestoreResult>
  restoreCheckpoint(sessionId: string, checkpointId: string, options?: Partial<Omit<RestoreOptions, 'checkpointId' | 'sessionId'>>): Promise<RestoreResult>
  /**
   * Removes a checkpoint. One that does not exist is no failure; `code` is `WAYMARK_BUSY` if another process holds the lock on the
   * checkpoints for longer than `timeoutMs`.
   */
  deleteCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /** Stores the result of a task: anything that JSON can hold. */
  saveTaskResult(sessionId: string, taskId: string, result: unknown): Promise<CheckpointResult>
  /** The result of a task, or `null`. */
  loadTaskResult<T = unknown>(sessionId: string, taskId: string): Promise<T | null>
  /** What a session takes up; zeros for one that does not exist. */
  getSessionStorageStats(sessionId: string): Promise<SessionStorageStats>
  /**
   * The checkpoints of one agent of a session: apart from those of the session, and from those of its other agents.
   *
   * Touches nothing yet; ids that cannot be file names make its methods fail.
   */
  agent(sessionId: string, agentId: string): AgentCheckpoints
  /** The ids of the agents of a session that have checkpoints of their own, sorted. */
  listAgents(sessionId: string): Promise<string[]>
  /**
   * What there is, newest first, without reading the payloads.
   *
   * A page ends after `limit` checkpoints; its `cursor`, passed on, asks for the next one. It stays right while
   * checkpoints come and go. The last page has none.
   */
  listCheckpointInfo(sessionId: string, options?: CheckpointInfoOptions): Promise<CheckpointInfoList>
  /**
   * Whole checkpoints, newest first, for `for await`: each is read when it is asked for.
   *
   * Shows those that were there when the first was asked for; what is deleted meanwhile is passed over. One that is
   * damaged rejects, and the walk goes on after it if it is asked to; with `skipDamaged` it is passed over.
   */
  checkpoints(sessionId: string, options?: CheckpointIterationOptions): CheckpointIterator
  /**
   * Says what changed from checkpoint `a` to checkpoint `b`: tasks, agents, context and session.
   *
   * Their sessions and encodings may differ. Values are equal whatever the order of their keys. A string names a checkpoint
   * as `session/checkpoint`. Rejects with `WAYMARK_NOT_FOUND` if one of them does not exist, and as `getCheckpoint()` does
   * if one is damaged.
   */
  diffCheckpoints(a: CheckpointReference | string, b: CheckpointReference | string): Promise<CheckpointDiff>
  /**
   * A line for each session, sorted by id, without reading a checkpoint: name, status, task counts, how many checkpoints,
   * the newest, bytes and expiry.
   */
  sessionsInfo(): Promise<SessionInfo[]>
  /** The line of one session, as `sessionsInfo()` has it; `null` if it has neither a document nor checkpoints. */
  sessionInfo(sessionId: string): Promise<SessionInfo | null>
  /**
   * The checkpoints of all sessions, newest first, without reading the payloads: as `listCheckpointInfo()`, with the
   * `sessionId` of each.
   */
  listAllCheckpoints(options?: CheckpointInfoOptions): Promise<AllCheckpointInfoList>
  /**
   * Removes all checkpoints of a session itself, pinned ones too; its document, its results and its agents stay. Resolves
   * to how many went.
   */
  deleteSessionCheckpoints(sessionId: string): Promise<number>
  /**
   * Archives the sessions whose `expiresAt` has passed by `now`, or with `action: 'delete'` deletes them, and says which.
   *
   * One that somebody works on (`initializing`, `active`, `resuming`, `completing`) is left alone however old it is. To
   * archive is to set its status to `archived`. The decision and the change are one step: a session that is saved as active
   * again meanwhile, or that another store holds a lease of, stays.
   *
   * If some sessions cannot be archived or deleted, the others are all the same, and the promise rejects with an
   * `ExpireSessionsError`: its `expired` lists what was done, its `failed` what was not.
   */
  expireSessions(now?: number | Date, options?: ExpireOptions): Promise<ExpiredSession[]>
  /**
   * The sessions whose last state says that somebody worked on them, each with its newest checkpoint that is whole: what a
   * new process goes on with. `recoverSession()` restores one.
   */
  recoverable(): Promise<RecoverableSession[]>
  /**
   * Copies sessions into another store: documents, checkpoints, agents, results, labels and pins. What was copied is read
   * back. Everything is copied byte for byte but deltas, which are stored anew on keys of the other store. What only that store has
   * stays. One that was interrupted goes on where it stopped when it is called again.
   */
  copyTo(other: CheckpointStore, options?: CopyOptions): Promise<CopyResult>
  /**
   * Verifies a checkpoint: it is whole if it can be read, its version is known, and its checksums match.
   *
   * A checkpoint that another program has written in another form, with the same data, is whole. Rejects with
   * `WAYMARK_NOT_FOUND` if there is none of that id.
   */
  verifyCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointVerification>
  /** Verifies everything in a session: its checkpoints, newest first, and its other files. */
  verifySession(sessionId: string, options?: WorkOptions): Promise<SessionVerification>
  /**
   * Restores the newest whole checkpoint of a session, and lists the damaged ones that it passed over.
   *
   * With `quarantine` the damaged ones are moved into the session's `damaged/`. No damaged checkpoint is ever deleted.
   */
  recoverSession(sessionId: string, options?: RecoverOptions): Promise<RecoverResult>
  /**
   * Gives a checkpoint a label, another one, or with `null` none. The checkpoint itself is not rewritten.
   *
   * With `unique`, a label that another checkpoint of the session has is refused with `WAYMARK_EXISTS`.
   */
  labelCheckpoint(sessionId: string, checkpointId: string, label: string | null, options?: LabelOptions): Promise<CheckpointResult>
  /** The newest checkpoint of a session that has a label, or `null`. */
  getCheckpointByLabel(sessionId: string, label: string): Promise<Checkpoint | null>
  /** Keeps retention from a checkpoint: it stays until it is unpinned or deleted, and does not count towards the limit. */
  pinCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /** Lets retention have a checkpoint again: it goes with the next one that is made, if it is beyond the limit. */
  unpinCheckpoint(sessionId: string, checkpointId: string): Promise<CheckpointResult>
  /**
   * Starts a new session from a checkpoint of another: what if it had gone on otherwise?
   *
   * The new session has the state, the agents and the context of that checkpoint, a first checkpoint of its own, and a
   * `forkedFrom`. The source is left as it is. A session that exists is refused with `WAYMARK_EXISTS`.
   */
  forkSession(options: ForkOptions): Promise<ForkResult>
  /**
   * The checkpoints of a session as a tree: each names its parent, its children, and the sessions that were forked from it.
   *
   * The tree is a flat list, newest first, because a chain of thousands is nothing to descend into.
   */
  history(sessionId: string): Promise<SessionHistory>
  /**
   * Says which checkpoints of a session stay, instead of what the store was told; `null` lets the store's be in force again.
   *
   * It is stored with the session, for all who make checkpoints of it, and is applied with the next checkpoint or by `prune()`.
   */
  setRetention(sessionId: string, retention: Retention | null): Promise<void>
  /** What was set for a session, or `null` if the store's is in force. */
  getRetention(sessionId: string): Promise<Retention | null>
  /**
   * Removes the checkpoints that do not stay, of one session or of all, and says which and why; with `dryRun` it only says.
   *
   * What is in force is what was set for a session, or what the store was told; `options.retention` goes before both. Agents
   * keep as many as `maxCheckpointsPerAgent` says. Rejects with `WAYMARK_NOT_FOUND` if there is no session of that id.
   */
  prune(sessionId?: string, options?: PruneOptions): Promise<PruneResult>
  prune(options: PruneOptions): Promise<PruneResult>
  /**
   * Stores the checkpoints of a session and of its agents in another encoding, one by one. Nothing else about them changes.
   *
   * Each is whole at every instant: a conversion that was interrupted goes on where it stopped when it is called again. What
   * is damaged is left as it is.
   */
  convert(sessionId: string, encoding: CheckpointEncoding, options?: WorkOptions): Promise<ConvertResult>
  /**
   * Writes a session into one export file: its document, its task tree and their earlier versions, labels, results, and all
   * checkpoints, those of its agents too, byte for byte. A file of that name is refused with `WAYMARK_EXISTS`.
   *
   * The file is a tar in zstd: `tar --zstd -tf file` lists it, and its `manifest.json` has the SHA-256 of every member.
   * `logs/` and `damaged/` are not part of it. It appears under its name once it is complete and durable.
   */
  exportSession(sessionId: string, file: string, options?: ExportOptions): Promise<ExportResult>
  /**
   * Imports an export file, into this backend or another, as one step. A session that exists is refused with
   * `WAYMARK_EXISTS`; `as` gives the new session another id.
   *
   * The whole file is verified before anything of it is visible: a file that is damaged or was not written by
   * `exportSession()` is refused with `WAYMARK_CORRUPT`.
   */
  importSession(file: string, options?: ImportOptions): Promise<ImportResult>
}
