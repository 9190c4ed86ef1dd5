// What a store must answer, in plain JavaScript: Maps only, and nothing of the project's own code.
//
// A `LocationModel` is what is stored in one location, and a `StoreModel` one store object on it with its options. A method
// of the model takes the arguments of the store's method, changes the model as the store must change, and returns the
// expected answer. What the store chooses (ids, revisions, sizes) is learned from its answers: the model checks the
// properties that are promised, and that the answer stays the same from then on.

import { createHash } from 'node:crypto'

import { anyNumber, anyString, differenceOf, inAnyOrder, matching, oneOf } from './compare.mjs'

/** A session with one of these is being worked on. */
const WORKING = ['initializing', 'active', 'resuming', 'completing']
/** What an agent's checkpoint says of itself: not taken from the state. */
const RESERVED = [
  'id',
  'sessionId',
  'agentId',
  'timestamp',
  'expiresAt',
  'version',
  'sizeBytes',
  'messageCount',
  'toolCallCount',
  'integrity',
  'passedOver',
]
const DEFAULT_LIMIT = 100
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Longer than any call takes. */
const CLOCK_TOLERANCE_MS = 10_000
/** What one entry of the session's list of labels takes at most, with the labels that sequences use. */
const LABEL_ENTRY_BYTES = 48

/** The store must refuse the call, with one of these codes. */
export class Refusal extends Error {
  constructor(codes, members = {}) {
    super(`refused with ${codes.join(' or ')}`)
    this.codes = codes
    this.members = members
  }
}

/** A promised property that does not hold. */
export class Violation extends Error {}

const demand = (holds, message) => {
  if (!holds) throw new Violation(message)
}
const throughJson = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))
const prettyBytes = (value) => Buffer.byteLength(JSON.stringify(value, null, 2))
const same = (a, b) => differenceOf(a, b) === undefined
const newestFirst = (map) => [...map.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1))
const expiryOf = ({ timestamp, content }) => (content.ttlMs === undefined ? undefined : timestamp + content.ttlMs)
const timeOf = (id) => Number.parseInt(id.split('-')[1], 36)

/** A value that is not known before the store has shown it, and must not change afterwards. */
function learned(holder, member, isValid, description) {
  if (holder[member] !== undefined) return holder[member]
  return matching(description, (value) => {
    if (!isValid(value)) return false
    holder[member] = value
    return true
  })
}
const within = (least, most) => matching(`from ${least} to ${most}`, (value) => value >= least && value <= most)
const isHash = (value) => /^[0-9a-f]{64}$/.test(value)
const isSize = (value) => Number.isInteger(value) && value > 0
const sizeOf = (checkpoint) => learned(checkpoint, 'sizeBytes', isSize, 'a size that stays the same')
const integrityOf = (checkpoint) => learned(checkpoint, 'integrity', isHash, 'a SHA-256 that stays the same')

function encodingOf(checkpoint) {
  if (!checkpoint.possibleEncodings) return checkpoint.encoding
  return matching(`one of ${checkpoint.possibleEncodings.join()}`, (value) => {
    if (!checkpoint.possibleEncodings.includes(value)) return false
    checkpoint.encoding = value
    checkpoint.possibleEncodings = undefined
    return true
  })
}

const mayBeDelta = ({ encoding, possibleEncodings = [encoding] }) => possibleEncodings.includes('delta')

const newSession = () => ({
  document: null,
  revision: undefined,
  taskTree: null,
  earlierDocuments: [],
  earlierTrees: [],
  results: new Map(),
  checkpoints: new Map(),
  agents: new Map(),
  retention: null,
  /** How many entries the session's list of labels may have, those of removed checkpoints included. */
  labelEntries: 0,
  /** How many bases without deltas an aborted conversion may have left. */
  unusedBases: 0,
})

export class LocationModel {
  sessions = new Map()
  /** Leases outlive their sessions. */
  leases = new Map()
}

export class StoreModel {
  constructor(location, options = {}) {
    this.location = location
    this.options = options
    /** The numbers of the leases that this store writes under. */
    this.leases = new Map()
    this.isOpen = true
  }

  // Sessions

  #find(sessionId) {
    return this.location.sessions.get(sessionId)
  }

  #make(sessionId) {
    if (!this.#find(sessionId)) this.location.sessions.set(sessionId, newSession())
    return this.#find(sessionId)
  }

  /** The codes with which a write to the session is refused. */
  leaseRefusals(sessionId) {
    const lease = this.location.leases.get(sessionId)
    const own = this.leases.get(sessionId)
    const isRefused = own === undefined ? lease?.isHeld : lease.number !== own
    return isRefused ? ['WAYMARK_LEASE_LOST'] : []
  }

  #mayWrite(sessionId, otherCodes = []) {
    const codes = [...this.leaseRefusals(sessionId), ...otherCodes]
    if (codes.length > 0) throw new Refusal(codes)
  }

  /** A write that changes nothing: whether it is refused for a lease is not promised. */
  #noChange(sessionId, answer, expected) {
    if (answer.code !== undefined && this.leaseRefusals(sessionId).includes(answer.code))
      throw new Refusal([answer.code])
    return expected
  }

  createSessionDirectory(sessionId, answer) {
    if (this.#find(sessionId)) return this.#noChange(sessionId, answer, undefined)
    this.#mayWrite(sessionId)
    this.#make(sessionId)
    return undefined
  }

  saveSession(session, options, answer) {
    const found = this.#find(session.id)
    const codes = this.leaseRefusals(session.id)
    const current = found?.document ? found.revision : null
    if (options && 'ifRevision' in options) {
      if (options.ifRevision !== current) {
        throw new Refusal([...codes, 'WAYMARK_CONFLICT'], { current: current === undefined ? anyString : current })
      }
    }
    if (codes.length > 0) throw new Refusal(codes)
    const { taskTree: _, ...document } = throughJson(session)
    this.#writeDocument(this.#make(session.id), document)
    const revision = answer.value?.revision
    this.#find(session.id).revision = revision
    return { success: true, path: anyString, sizeBytes: prettyBytes(document), revision: anyString }
  }

  #writeDocument(record, document) {
    const keep = this.options.keepPrevious ?? 0
    if (record.document) record.earlierDocuments.unshift(record.document)
    record.earlierDocuments.length = Math.min(record.earlierDocuments.length, keep)
    record.document = document
    record.revision = undefined
  }

  #writeTree(record, taskTree) {
    const keep = this.options.keepPrevious ?? 0
    if (record.taskTree) record.earlierTrees.unshift(record.taskTree)
    record.earlierTrees.length = Math.min(record.earlierTrees.length, keep)
    record.taskTree = taskTree
  }

  loadSession(sessionId, { version = 0, withRevision = false } = {}) {
    const record = this.#find(sessionId)
    const document = (version === 0 ? record?.document : record?.earlierDocuments[-version - 1]) ?? null
    if (!withRevision || !document) return document
    const revision =
      version === 0 ? learned(record, 'revision', (value) => typeof value === 'string', 'a revision') : anyString
    return { session: document, revision }
  }

  saveTaskTree(sessionId, taskTree) {
    this.#mayWrite(sessionId)
    const tree = throughJson(taskTree instanceof Map ? Object.fromEntries(taskTree) : taskTree)
    this.#writeTree(this.#make(sessionId), tree)
    return { success: true, path: anyString, sizeBytes: prettyBytes(tree) }
  }

  loadTaskTree(sessionId, { version = 0 } = {}) {
    const record = this.#find(sessionId)
    return (version === 0 ? record?.taskTree : record?.earlierTrees[-version - 1]) ?? null
  }

  saveTaskResult(sessionId, taskId, result) {
    this.#mayWrite(sessionId)
    const value = throughJson(result)
    this.#make(sessionId).results.set(taskId, value)
    return { success: true, path: anyString, sizeBytes: prettyBytes(value) }
  }

  loadTaskResult(sessionId, taskId) {
    return this.#find(sessionId)?.results.get(taskId) ?? null
  }

  listSessions() {
    return this.#ids((record) => record.document !== null)
  }

  #ids(isWanted) {
    const wanted = [...this.location.sessions].filter(([, record]) => isWanted(record))
    return wanted.map(([id]) => id).toSorted()
  }

  deleteSession(sessionId, answer) {
    if (!this.#find(sessionId)) return this.#noChange(sessionId, answer, { success: true })
    this.#mayWrite(sessionId)
    this.location.sessions.delete(sessionId)
    return { success: true }
  }

  /** The bytes of everything in the session, or at least how many. */
  #bytesOf(record) {
    if (!record) return 0
    const documents = [record.document, ...record.earlierDocuments, record.taskTree, ...record.earlierTrees]
    const values = [...documents, record.retention].filter((value) => value !== null)
    const checkpoints = this.#allCheckpoints(record)
    const known =
      [...values, ...record.results.values()].reduce((sum, value) => sum + prettyBytes(value), 0) +
      checkpoints.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0)
    const hasUnknown =
      record.unusedBases > 0 ||
      checkpoints.some(
        ({ sizeBytes, encoding, possibleEncodings }) =>
          sizeBytes === undefined || encoding === 'delta' || possibleEncodings,
      )
    const most = hasUnknown
      ? Infinity
      : known + (record.labelEntries > 0 ? 4 : 0) + record.labelEntries * LABEL_ENTRY_BYTES
    return matching(`from ${known} to ${most} bytes`, (value) => value >= known && value <= most)
  }

  #allCheckpoints(record) {
    return [record.checkpoints, ...record.agents.values()].flatMap((checkpoints) => newestFirst(checkpoints))
  }

  getSessionStorageStats(sessionId) {
    const record = this.#find(sessionId)
    return {
      totalSizeBytes: this.#bytesOf(record),
      checkpointCount: record?.checkpoints.size ?? 0,
      resultCount: record?.results.size ?? 0,
    }
  }

  sessionInfo(sessionId) {
    const record = this.#find(sessionId)
    if (!record || !(record.document || this.#allCheckpoints(record).length > 0)) return null
    const document = record.document ?? {}
    const [newest] = newestFirst(record.checkpoints)
    const lease = this.location.leases.get(sessionId)
    return {
      id: sessionId,
      name: document.name,
      status: document.status,
      createdAt: document.createdAt,
      expiresAt: document.expiresAt,
      forkedFrom: document.forkedFrom,
      tasks: document.metrics && {
        total: document.metrics.totalTasks,
        completed: document.metrics.completedTasks,
        failed: document.metrics.failedTasks,
        pending: document.metrics.pendingTasks,
        inProgress: document.metrics.inProgressTasks,
      },
      checkpointCount: record.checkpoints.size,
      pinnedCount: newestFirst(record.checkpoints).filter(({ isPinned }) => isPinned).length,
      agentCheckpointCount: this.#allCheckpoints(record).length - record.checkpoints.size,
      newestCheckpoint: newest && { id: newest.id, timestamp: oneOf(newest.timestamp, timeOf(newest.id)) },
      sizeBytes: this.#bytesOf(record),
      lease: lease?.isHeld ? { owner: lease.owner, number: lease.number, expiresAt: anyNumber } : undefined,
    }
  }

  sessionsInfo() {
    return this.#ids(() => true)
      .map((id) => this.sessionInfo(id))
      .filter((info) => info !== null)
  }

  expireSessions(now, { action = 'archive' } = {}) {
    const expired = []
    let isRefused = false
    for (const sessionId of this.#ids(({ document }) => document !== null)) {
      const { document } = this.#find(sessionId)
      const isOver = typeof document.expiresAt === 'number' && document.expiresAt <= now
      const isArchived = action === 'archive' && document.status === 'archived'
      const lease = this.location.leases.get(sessionId)
      const isOwnedByAnother = lease?.isHeld && lease.number !== this.leases.get(sessionId)
      if (!isOver || isArchived || isOwnedByAnother || WORKING.includes(document.status)) continue
      if (this.leaseRefusals(sessionId).length > 0) {
        isRefused = true
        continue
      }
      const { status = null, expiresAt } = document
      expired.push({ sessionId, status, expiresAt, action: action === 'delete' ? 'deleted' : 'archived' })
      if (action === 'delete') this.location.sessions.delete(sessionId)
      else this.#writeDocument(this.#find(sessionId), { ...document, status: 'archived' })
    }
    if (isRefused) throw new Refusal(['WAYMARK_LEASE_LOST'])
    return expired
  }

  recoverable() {
    const found = []
    for (const sessionId of this.#ids(() => true)) {
      const record = this.#find(sessionId)
      const [newest] = newestFirst(record.checkpoints)
      const { name, status } = record.document ?? newest?.session ?? {}
      if (!WORKING.includes(status)) continue
      found.push({ sessionId, name, status, checkpoint: newest ? this.#info(newest) : null, damaged: [] })
    }
    return found
  }

  // Checkpoints of a session

  createCheckpoint({ session, agentStates = {}, contextStore = {}, options }, answer, calledAt) {
    const sessionId = session.id
    const record = this.#find(sessionId) ?? newSession()
    const codes = this.leaseRefusals(sessionId)
    const current = newestFirst(record.checkpoints)[0]?.id ?? null
    if ('ifParent' in options && options.ifParent !== current) codes.push('WAYMARK_CONFLICT')
    if (options.uniqueLabel && this.#labelled(record, options.label)) codes.push('WAYMARK_EXISTS')
    if (codes.length > 0) throw new Refusal(codes, { current })

    const id = answer.value?.checkpointId
    const timestamp = this.#checkNewId(id, record.checkpoints, calledAt)
    const { taskTree, ...rest } = throughJson(session)
    const checkpoint = {
      id,
      sessionId,
      timestamp,
      trigger: options.trigger,
      description: options.description,
      session: { ...rest, lastCheckpointId: id, checkpointIds: [...(rest.checkpointIds ?? []), id] },
      taskTree: throughJson(taskTree instanceof Map ? Object.fromEntries(session.taskTree) : taskTree),
      agentStates: throughJson(agentStates),
      contextStore: options.includeContext ? throughJson(contextStore) : {},
      metadata: throughJson(options.metadata),
      label: options.label,
      parent: rest.lastCheckpointId ?? undefined,
      encoding: options.encoding ?? (options.compress ? 'gzip' : this.options.encoding) ?? 'json',
      sizeBytes: answer.value.sizeBytes,
      isPinned: false,
    }
    this.location.sessions.set(sessionId, record)
    record.checkpoints.set(id, checkpoint)
    // A label that has to be unique may be in the session's list of labels as well.
    if (options.label !== undefined) record.labelEntries += 1
    this.#retain(record)
    return { success: true, checkpointId: id, path: anyString, sizeBytes: matching('a size', isSize) }
  }

  #checkNewId(id, others, calledAt) {
    demand(/^cp-[0-9a-z]+-[0-9a-z]{6}$/.test(id), `${id} is no checkpoint id`)
    for (const other of others.keys()) demand(id > other, `the new checkpoint ${id} is not newer than ${other}`)
    const drift = timeOf(id) - calledAt
    demand(Math.abs(drift) < CLOCK_TOLERANCE_MS, `the new checkpoint ${id} is ${drift} ms away from the clock`)
    // An id that has to be greater than another one of the same millisecond may be ahead of the clock.
    return [...others.keys()].some((other) => timeOf(other) >= calledAt) ? undefined : timeOf(id)
  }

  /** Checkpoints whose `timestamp` is not known, because it may differ from the time in the id. */
  timesInDoubt(sessionId) {
    const record = this.#find(sessionId)
    return record ? this.#allCheckpoints(record).filter(({ timestamp }) => timestamp === undefined) : []
  }

  learnTime(checkpoint, timestamp) {
    const ahead = timeOf(checkpoint.id) - timestamp
    demand(ahead >= 0 && ahead < CLOCK_TOLERANCE_MS, `the timestamp of ${checkpoint.id} is ${ahead} ms before its id`)
    checkpoint.timestamp = timestamp
  }

  #labelled(record, label) {
    return newestFirst(record.checkpoints).find((checkpoint) => checkpoint.label === label)
  }

  /** What retention removes: the oldest first. `exact` is false where the model cannot know the bytes of delta keys. */
  #excess(record, given) {
    const retention = given ?? record.retention ?? this.options.retention
    const limit = this.options.maxCheckpointsPerSession ?? (retention ? Infinity : DEFAULT_LIMIT)
    const all = newestFirst(record.checkpoints)
    const counted = all.filter(({ isPinned }) => !isPinned)
    const { keepLast, keepHourly, keepDaily, maxAgeMs = Infinity, maxBytes = Infinity } = retention ?? {}
    const keepsLabelled = retention !== undefined && retention !== null && retention.keepLabelled !== false
    const isSafe = (checkpoint) =>
      checkpoint === all[0] || checkpoint.isPinned || (keepsLabelled && checkpoint.label !== undefined)

    const chosen = new Set()
    for (const checkpoint of counted.slice(0, keepLast ?? 0)) chosen.add(checkpoint)
    for (const [number = 0, length] of [
      [keepHourly, HOUR_MS],
      [keepDaily, DAY_MS],
    ]) {
      const newestOf = new Map()
      for (const checkpoint of counted) {
        const period = Math.floor(timeOf(checkpoint.id) / length)
        if (!newestOf.has(period)) newestOf.set(period, checkpoint)
      }
      for (const checkpoint of [...newestOf.values()].slice(0, number)) chosen.add(checkpoint)
    }
    const choosesAll = keepLast === undefined && keepHourly === undefined && keepDaily === undefined
    const oldest = Date.now() - maxAgeMs
    const removed = counted.filter((checkpoint, at) => {
      const stays = (choosesAll || chosen.has(checkpoint)) && at < limit && timeOf(checkpoint.id) >= oldest
      return !stays && !isSafe(checkpoint)
    })

    const left = all.filter((checkpoint) => !removed.includes(checkpoint))
    let bytes = left.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0)
    for (const checkpoint of left.toReversed()) {
      if (bytes <= maxBytes) break
      if (isSafe(checkpoint)) continue
      removed.push(checkpoint)
      bytes -= checkpoint.sizeBytes ?? 0
    }
    const isKnown = ({ sizeBytes, encoding }) => sizeBytes !== undefined && encoding !== 'delta'
    return {
      removed: removed.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      exact: maxBytes === Infinity || left.every(isKnown),
      mayGo: left.filter((checkpoint) => !isSafe(checkpoint)),
    }
  }

  #retain(record) {
    const excess = this.#excess(record)
    for (const { id } of excess.removed) this.#forget(record, id)
    if (!excess.exact) record.inDoubt = excess.mayGo
  }

  #forget(record, id) {
    record.checkpoints.delete(id)
  }

  /** Whether the model has to see the list of a session before it knows what retention left of it. */
  isInDoubt(sessionId) {
    return this.#find(sessionId)?.inDoubt !== undefined
  }

  /** Learns what `maxBytes` left where deltas share keys: the oldest must have gone first. */
  learnRetained(sessionId, ids) {
    const record = this.#find(sessionId)
    const mayGo = record.inDoubt.toSorted((a, b) => (a.id < b.id ? -1 : 1))
    record.inDoubt = undefined
    const isGone = mayGo.map(({ id }) => !ids.includes(id))
    demand(
      isGone.lastIndexOf(true) < isGone.filter(Boolean).length,
      'maxBytes removed a checkpoint before an older one',
    )
    for (const [at, checkpoint] of mayGo.entries()) {
      if (isGone[at]) record.checkpoints.delete(checkpoint.id)
      else record.checkpoints.set(checkpoint.id, checkpoint)
    }
  }

  #full(checkpoint) {
    const { id, sessionId, timestamp, taskTree, agentStates } = checkpoint
    const hashed = JSON.stringify({ sessionId, timestamp, taskTree, agentStates })
    return {
      id,
      sessionId,
      timestamp,
      trigger: checkpoint.trigger,
      description: checkpoint.description,
      session: checkpoint.session,
      taskTree,
      agentStates,
      contextStore: checkpoint.contextStore,
      checksum: createHash('sha256').update(hashed).digest('hex'),
      version: '1.0.0',
      sizeBytes: sizeOf(checkpoint),
      metadata: checkpoint.metadata,
      taskCount: Object.keys(taskTree ?? {}).length,
      agentCount: Object.keys(agentStates).length,
      label: checkpoint.label,
      parent: checkpoint.parent,
      integrity: integrityOf(checkpoint),
    }
  }

  #info(checkpoint) {
    return {
      id: checkpoint.id,
      timestamp: checkpoint.timestamp,
      trigger: checkpoint.trigger,
      description: checkpoint.description,
      label: checkpoint.label,
      parent: checkpoint.parent,
      taskCount: Object.keys(checkpoint.taskTree ?? {}).length,
      agentCount: Object.keys(checkpoint.agentStates).length,
      sizeBytes: sizeOf(checkpoint),
      encoding: encodingOf(checkpoint),
      pinned: checkpoint.isPinned || undefined,
    }
  }

  /** The checkpoints of a session, newest first. */
  checkpointsOf(sessionId) {
    return newestFirst(this.#find(sessionId)?.checkpoints ?? new Map())
  }

  #filtered(sessionId, { trigger, label, since, until } = {}) {
    return this.checkpointsOf(sessionId).filter(
      (checkpoint) =>
        (trigger === undefined || checkpoint.trigger === trigger) &&
        (label === undefined || checkpoint.label === label) &&
        (since === undefined || checkpoint.timestamp >= Number(since)) &&
        (until === undefined || checkpoint.timestamp <= Number(until)),
    )
  }

  listCheckpoints(sessionId, limit = 0, offset = 0) {
    const all = this.checkpointsOf(sessionId)
    const page = all.slice(offset, limit === 0 ? undefined : offset + limit)
    return { checkpoints: page.map((checkpoint) => this.#full(checkpoint)), total: all.length, damaged: [] }
  }

  /** All pages of a list one after another. */
  listCheckpointInfo(sessionId, filter) {
    return {
      checkpoints: this.#filtered(sessionId, filter).map((checkpoint) => this.#info(checkpoint)),
      total: this.checkpointsOf(sessionId).length,
    }
  }

  /** All pages of a list one after another. Of checkpoints with the same id, in several sessions, any may come first. */
  listAllCheckpoints(filter) {
    const found = this.#ids(() => true).flatMap((sessionId) =>
      this.#filtered(sessionId, filter).map((checkpoint) => Object.assign(this.#info(checkpoint), { sessionId })),
    )
    const total = this.#ids(() => true).reduce((sum, id) => sum + this.checkpointsOf(id).length, 0)
    const checkpoints = inAnyOrder(found, ({ id, sessionId }) => `${id} ${sessionId}`)
    return {
      checkpoints,
      total,
      order: found
        .map(({ id }) => id)
        .toSorted()
        .toReversed(),
    }
  }

  checkpoints(sessionId, filter, most = Infinity) {
    return this.#filtered(sessionId, filter)
      .slice(0, most)
      .map((checkpoint) => this.#full(checkpoint))
  }

  getCheckpoint(sessionId, checkpointId) {
    const checkpoint = this.#find(sessionId)?.checkpoints.get(checkpointId)
    return checkpoint ? this.#full(checkpoint) : null
  }

  getLatestCheckpoint(sessionId) {
    const [newest] = this.checkpointsOf(sessionId)
    return newest ? this.#full(newest) : null
  }

  getCheckpointByLabel(sessionId, label) {
    const found = this.checkpointsOf(sessionId).find((checkpoint) => checkpoint.label === label)
    return found ? this.#full(found) : null
  }

  #demandCheckpoint(sessionId, checkpointId, codes = []) {
    const checkpoint = this.#find(sessionId)?.checkpoints.get(checkpointId)
    if (!checkpoint) throw new Refusal(['WAYMARK_NOT_FOUND', ...codes])
    return checkpoint
  }

  verifyCheckpoint(sessionId, checkpointId) {
    const checkpoint = this.#demandCheckpoint(sessionId, checkpointId)
    return { id: checkpointId, path: anyString, whole: true, sizeBytes: sizeOf(checkpoint) }
  }

  verifySession(sessionId) {
    const record = this.#find(sessionId) ?? newSession()
    const whole = (checkpoint, members = {}) => ({
      id: checkpoint.id,
      path: anyString,
      whole: true,
      sizeBytes: sizeOf(checkpoint),
      ...members,
    })
    const agentCheckpoints = [...record.agents]
      .toSorted()
      .flatMap(([agentId, checkpoints]) => newestFirst(checkpoints).map((checkpoint) => whole(checkpoint, { agentId })))
    const isWhole = (files) => Array.isArray(files) && files.every((file) => file.whole && !file.error)
    return {
      sessionId,
      whole: true,
      checkpoints: this.checkpointsOf(sessionId).map((checkpoint) => whole(checkpoint)),
      agentCheckpoints,
      files: matching('files that are whole', isWhole),
    }
  }

  deleteCheckpoint(sessionId, checkpointId, answer) {
    const record = this.#find(sessionId)
    if (!record?.checkpoints.has(checkpointId)) return this.#noChange(sessionId, answer, { success: true })
    this.#mayWrite(sessionId)
    this.#forget(record, checkpointId)
    return { success: true }
  }

  deleteSessionCheckpoints(sessionId, answer) {
    const record = this.#find(sessionId)
    const number = record?.checkpoints.size ?? 0
    if (number === 0) return this.#noChange(sessionId, answer, 0)
    this.#mayWrite(sessionId)
    for (const id of record.checkpoints.keys()) this.#forget(record, id)
    return number
  }

  // Restoring

  #reset(taskTree, { resetFailedTasks, resetInProgressTasks }) {
    const tree = throughJson(taskTree)
    const warnings = []
    const resetAll = (status, members, name) => {
      for (const [id, task] of Object.entries(tree)) {
        if (task.status !== status) continue
        task.status = 'pending'
        for (const member of members) delete task[member]
        if (status === 'failed') task.retryCount = 0
        warnings.push(`Reset ${name} task: ${id}`)
      }
    }
    if (resetFailedTasks) resetAll('failed', ['result', 'assignedAgentId', 'startedAt', 'completedAt'], 'failed')
    if (resetInProgressTasks) resetAll('in_progress', ['assignedAgentId', 'startedAt'], 'in-progress')
    return { tree, warnings }
  }

  #restore(sessionId, checkpoint, options, isDryRun = false) {
    const { tree, warnings } = this.#reset(checkpoint.taskTree, options)
    const document = { ...checkpoint.session, id: sessionId, lastCheckpointId: checkpoint.id }
    if (!isDryRun) {
      const record = this.#find(sessionId)
      this.#writeDocument(record, document)
      this.#writeTree(record, tree)
    }
    const { agentStates, contextStore } = checkpoint
    return {
      success: true,
      sessionId,
      restoredTasks: Object.keys(tree).length,
      restoredAgents: Object.keys(agentStates).length,
      warnings,
      state: options.includeState ? { session: document, taskTree: tree, agentStates, contextStore } : undefined,
    }
  }

  /** Without a session, all of them are searched. */
  restoreCheckpoint(sessionId, checkpointId, options) {
    const isHere = ([, record]) => record.checkpoints.has(checkpointId)
    const sessions =
      sessionId === undefined ? [...this.location.sessions].filter(isHere).map(([id]) => id) : [sessionId]
    if (sessions.length > 1) throw new Refusal(['WAYMARK_AMBIGUOUS'])
    const codes = sessions.length === 1 ? this.leaseRefusals(sessions[0]) : []
    const checkpoint = this.#demandCheckpoint(sessions[0], checkpointId, codes)
    this.#mayWrite(sessions[0])
    return this.#restore(sessions[0], checkpoint, options)
  }

  recoverSession(sessionId, options) {
    const [newest] = this.checkpointsOf(sessionId)
    const codes = options.dryRun ? [] : this.leaseRefusals(sessionId)
    if (!newest) throw new Refusal(['WAYMARK_NOT_FOUND', ...codes])
    if (codes.length > 0) throw new Refusal(codes)
    const restored = this.#restore(sessionId, newest, options, options.dryRun)
    return { ...restored, checkpointId: newest.id, passedOver: [] }
  }

  forkSession({ sessionId, checkpointId, newSessionId, ...options }, answer, calledAt) {
    const codes = this.leaseRefusals(newSessionId)
    if (this.#holdsAnything(newSessionId, answer)) codes.push('WAYMARK_EXISTS')
    const source = this.#demandCheckpoint(sessionId, checkpointId, codes)
    if (codes.length > 0) throw new Refusal(codes)
    const { tree, warnings } = this.#reset(source.taskTree, options)
    const id = answer.value?.checkpointId
    this.#checkNewId(id, new Map(), calledAt)
    const session = {
      ...source.session,
      id: newSessionId,
      lastCheckpointId: id,
      checkpointIds: [id],
      forkedFrom: { sessionId, checkpointId },
    }
    const record = this.#make(newSessionId)
    record.document = session
    record.taskTree = tree
    record.checkpoints.set(id, {
      ...source,
      id,
      sessionId: newSessionId,
      timestamp: timeOf(id),
      trigger: 'manual',
      description: `Forked from ${sessionId}/${checkpointId}`,
      session,
      taskTree: tree,
      metadata: undefined,
      label: undefined,
      wasRelabelled: false,
      parent: undefined,
      isPinned: false,
      encoding: this.options.encoding ?? 'json',
      // The first of a session may be stored whole.
      possibleEncodings: this.options.encoding === 'delta' ? ['delta', 'zstd'] : undefined,
      sizeBytes: undefined,
      integrity: undefined,
    })
    return {
      success: true,
      sessionId: newSessionId,
      checkpointId: id,
      path: anyString,
      restoredTasks: Object.keys(tree).length,
      restoredAgents: Object.keys(source.agentStates).length,
      warnings,
    }
  }

  /** Whether anything is stored under the id: an empty directory does not count. */
  hasContent(sessionId) {
    const record = this.#find(sessionId)
    if (!record) return false
    const { document, taskTree, retention, results } = record
    return Boolean(document || taskTree || retention || results.size || this.#allCheckpoints(record).length)
  }

  /** The same for a step that creates the session. Labels of removed checkpoints may still be stored, and refuse it. */
  #holdsAnything(sessionId, answer) {
    const mayHoldLabels = this.#find(sessionId)?.labelEntries > 0
    return this.hasContent(sessionId) || (mayHoldLabels && answer.code === 'WAYMARK_EXISTS')
  }

  history(sessionId) {
    const record = this.#find(sessionId)
    if (!record || !(record.document || record.checkpoints.size > 0)) throw new Refusal(['WAYMARK_NOT_FOUND'])
    const all = this.checkpointsOf(sessionId)
    const forksOf = (checkpointId) =>
      this.#ids(({ document }) => document && same(document.forkedFrom, { sessionId, checkpointId }))
    return {
      sessionId,
      forkedFrom: record.document?.forkedFrom,
      checkpoints: all.map((checkpoint) =>
        Object.assign(this.#info(checkpoint), {
          children: all
            .filter(({ parent }) => parent === checkpoint.id)
            .map(({ id }) => id)
            .toReversed(),
          forks: forksOf(checkpoint.id),
        }),
      ),
      damaged: [],
    }
  }

  diffCheckpoints(a, b) {
    const [before, after] = [a, b].map(({ sessionId, checkpointId }) => this.#demandCheckpoint(sessionId, checkpointId))
    const part = (name) => differencesOf(before[name] ?? {}, after[name] ?? {})
    const names = ({ added, removed, changed }) => [...added, ...removed, ...changed.map(({ id }) => id)]
    const withoutStatus = ({ id, members }) => ({ id, members })
    const [tasks, agents, context] = [part('taskTree'), part('agentStates'), part('contextStore')]
    const always = new Set(['lastCheckpointId', 'checkpointIds'])
    const session = names(part('session')).filter((name) => !always.has(name))
    const all = [...names(tasks), ...names(agents), ...names(context), ...session]
    const sorted = (list) => inAnyOrder(list, (each) => each.id ?? each)
    return {
      a: { ...a, timestamp: before.timestamp },
      b: { ...b, timestamp: after.timestamp },
      identical: all.length === 0,
      tasks,
      agents: {
        added: sorted(agents.added),
        removed: sorted(agents.removed),
        changed: sorted(agents.changed.map(withoutStatus)),
      },
      context: {
        added: sorted(context.added),
        removed: sorted(context.removed),
        changed: sorted(context.changed.map(({ id }) => id)),
      },
      session: sorted(session),
    }
  }

  // Labels, pins and retention

  labelCheckpoint(sessionId, checkpointId, label, { unique = false } = {}) {
    const codes = this.leaseRefusals(sessionId)
    const checkpoint = this.#demandCheckpoint(sessionId, checkpointId, codes)
    const record = this.#find(sessionId)
    const isTaken = [...record.checkpoints.values()].some((other) => other !== checkpoint && other.label === label)
    if (unique && label !== null && isTaken) codes.push('WAYMARK_EXISTS')
    if (codes.length > 0) throw new Refusal(codes)
    checkpoint.label = label ?? undefined
    checkpoint.wasRelabelled = true
    record.labelEntries += 1
    return { success: true }
  }

  pinCheckpoint(sessionId, checkpointId, isPinned) {
    const codes = this.leaseRefusals(sessionId)
    const checkpoint = this.#demandCheckpoint(sessionId, checkpointId, codes)
    if (codes.length > 0) throw new Refusal(codes)
    checkpoint.isPinned = isPinned
    return { success: true }
  }

  setRetention(sessionId, retention, answer) {
    const record = this.#find(sessionId)
    if (retention === null && !record?.retention) return this.#noChange(sessionId, answer, undefined)
    this.#mayWrite(sessionId)
    this.#make(sessionId).retention = retention
    return undefined
  }

  getRetention(sessionId) {
    return this.#find(sessionId)?.retention ?? null
  }

  prune(sessionId, { dryRun = false, retention } = {}, answer) {
    if (sessionId !== undefined && !this.#find(sessionId)) throw new Refusal(['WAYMARK_NOT_FOUND'])
    const removed = []
    const failed = []
    const mayFail = new Set()
    let kept = 0
    for (const id of sessionId === undefined ? this.#ids(() => true) : [sessionId]) {
      const record = this.#find(id)
      const isRefused = this.leaseRefusals(id).length > 0 && !dryRun
      const line = (checkpoint, agentId) => ({
        sessionId: id,
        agentId,
        checkpointId: checkpoint.id,
        timestamp: timeOf(checkpoint.id),
        sizeBytes: sizeOf(checkpoint),
        reason: anyString,
      })
      const excess = this.#excess(record, retention)
      if (!excess.exact && !isRefused) {
        // Where deltas share keys, the answer says how far `maxBytes` went.
        const gone = answer.value?.removed.filter((each) => each.sessionId === id && !each.agentId) ?? []
        record.inDoubt = [...excess.removed, ...excess.mayGo]
        if (dryRun) {
          record.inDoubt = undefined
          excess.removed = gone.map(({ checkpointId }) => record.checkpoints.get(checkpointId))
        } else {
          const ids = [...record.checkpoints.keys()].filter((each) => !gone.some((one) => one.checkpointId === each))
          excess.removed = gone.map(({ checkpointId }) => record.checkpoints.get(checkpointId))
          this.learnRetained(id, ids)
        }
        demand(!excess.removed.includes(undefined), `prune removed a checkpoint of ${id} that was not there`)
      }
      const agents = [...record.agents].toSorted().map(([agentId, checkpoints]) => {
        const limit = this.options.maxCheckpointsPerAgent ?? DEFAULT_LIMIT
        return [agentId, checkpoints, newestFirst(checkpoints).slice(limit).toReversed()]
      })
      if (isRefused) {
        const number = excess.removed.length + agents.reduce((sum, [, , gone]) => sum + gone.length, 0)
        if (number > 0 || !excess.exact) mayFail.add(id)
        if (number > 0 && excess.exact) failed.push(id)
        kept += this.#allCheckpoints(record).length
        continue
      }
      removed.push(...excess.removed.map((checkpoint) => line(checkpoint)))
      for (const [agentId, , gone] of agents) removed.push(...gone.map((checkpoint) => line(checkpoint, agentId)))
      const total = this.#allCheckpoints(record).length
      if (!dryRun) {
        for (const checkpoint of excess.removed) this.#forget(record, checkpoint.id)
        for (const [, checkpoints, gone] of agents) for (const { id: gonId } of gone) checkpoints.delete(gonId)
      }
      kept += dryRun
        ? total - excess.removed.length - agents.reduce((sum, [, , gone]) => sum + gone.length, 0)
        : this.#allCheckpoints(record).length
    }
    const isRefusal = (failures) =>
      Array.isArray(failures) &&
      failures.every((failure) => failure.code === 'WAYMARK_LEASE_LOST' && mayFail.has(failure.sessionId)) &&
      failed.every((id) => failures.some((failure) => failure.sessionId === id))
    if (mayFail.size > 0 && sessionId !== undefined && answer.code === 'WAYMARK_LEASE_LOST') {
      throw new Refusal(['WAYMARK_LEASE_LOST'])
    }
    return {
      dryRun,
      removed: inAnyOrder(
        removed,
        ({ sessionId: id, agentId = '', checkpointId }) => `${id} ${agentId} ${checkpointId}`,
      ),
      kept,
      freedBytes: anyNumber,
      failed: mayFail.size > 0 ? matching(`failures for ${failed}`, isRefusal) : [],
    }
  }

  convert(sessionId, encoding, answer) {
    const record = this.#find(sessionId)
    if (!record) throw new Refusal(['WAYMARK_NOT_FOUND', 'ABORT_ERR'])
    const all = this.#allCheckpoints(record)
    const isAborted = answer.code === 'ABORT_ERR'
    // The encoding of an agent's expired checkpoint is in no list: after an aborted conversion it stays unknown.
    const isOpen = ({ possibleEncodings }) => possibleEncodings?.includes(encoding)
    const others = all.filter((checkpoint) => !isOpen(checkpoint) && checkpoint.encoding !== encoding)
    const open = all.filter(isOpen)
    const before = this.#bytesOf(record)
    const refusals = this.leaseRefusals(sessionId)
    if (refusals.length > 0 && others.length > 0) throw new Refusal(isAborted ? ['ABORT_ERR'] : refusals)
    // An aborted conversion may leave bases without deltas; the next one deletes them.
    record.unusedBases = isAborted ? record.unusedBases + all.filter(mayBeDelta).length : 0
    for (const checkpoint of [...others, ...open]) {
      const { possibleEncodings = [checkpoint.encoding] } = checkpoint
      checkpoint.sizeBytes = undefined
      checkpoint.possibleEncodings = isAborted ? [...possibleEncodings, encoding] : undefined
      if (!isAborted) checkpoint.encoding = encoding
    }
    if (isAborted) throw new Refusal(['ABORT_ERR'])
    return {
      sessionId,
      encoding,
      converted: within(others.length, others.length + open.length),
      unchanged: all.length - (answer.value?.converted ?? 0),
      skipped: [],
      bytesBefore: before,
      bytesAfter: anyNumber,
    }
  }

  // Export, import and copy

  /** How many documents are in an export or a copy of a session. The list of labels is one; so is each base of deltas. */
  #documentsOf(record, withEarlier) {
    const earlier = withEarlier ? record.earlierDocuments.length + record.earlierTrees.length : 0
    const present = [record.document, record.taskTree, record.retention].filter((value) => value !== null)
    const known = present.length + record.results.size + earlier
    const bases = this.#allCheckpoints(record).filter(mayBeDelta).length + record.unusedBases
    return { least: known, most: known + (record.labelEntries > 0 ? 1 : 0) + bases }
  }

  /** Gives the expected answer, and what the file holds. */
  exportSession(sessionId, file) {
    if (!this.hasContent(sessionId)) throw new Refusal(['WAYMARK_NOT_FOUND'])
    const record = this.#find(sessionId)
    const { least, most } = this.#documentsOf(record, true)
    const expected = {
      file,
      sessionId,
      checkpoints: this.#allCheckpoints(record).length,
      documents: within(least, most),
      bytes: anyNumber,
      sizeBytes: anyNumber,
    }
    return { expected, content: { sessionId, record: structuredClone(record) } }
  }

  importSession({ sessionId, record }, as = sessionId, answer) {
    const codes = this.leaseRefusals(as)
    if (this.#holdsAnything(as, answer)) codes.push('WAYMARK_EXISTS')
    if (codes.length > 0) throw new Refusal(codes)
    const copy = structuredClone(record)
    if (as !== sessionId) {
      const renamed = (document) => document && { ...document, id: as }
      copy.document = renamed(copy.document)
      copy.earlierDocuments = copy.earlierDocuments.map(renamed)
      copy.revision = undefined
    }
    this.location.sessions.set(as, copy)
    const { least, most } = this.#documentsOf(copy, true)
    return {
      sessionId: as,
      checkpoints: this.#allCheckpoints(copy).length,
      documents: within(least, most),
      bytes: anyNumber,
    }
  }

  /** The sessions that a copy is about. */
  copiedSessions(sessionId) {
    return sessionId === undefined ? this.#ids(() => true).filter((id) => this.hasContent(id)) : [sessionId]
  }

  copyTo(target, sessionId, answer) {
    if (sessionId !== undefined && !this.hasContent(sessionId)) throw new Refusal(['WAYMARK_NOT_FOUND'])
    const sessions = this.copiedSessions(sessionId)
    const refused = sessions.filter((id) => target.leaseRefusals(id).length > 0)
    if (refused.length > 0 && answer.code === 'WAYMARK_LEASE_LOST') throw new Refusal(['WAYMARK_LEASE_LOST'])
    let [copied, mayBeCopied, least, most] = [0, 0, 0, 0]
    for (const id of sessions) {
      const source = this.#find(id)
      const before = target.#find(id) ?? newSession()
      const changes = target.#receive(id, source)
      demand(
        !refused.includes(id) || changes.certain === 0,
        `copyTo changed session ${id}, which another store has a lease of`,
      )
      if (refused.includes(id)) target.location.sessions.set(id, before)
      copied += changes.copied
      mayBeCopied += changes.mayBeCopied
      const documents = this.#documentsOf(source, false)
      const checkpoints = this.#allCheckpoints(source).length
      least += documents.least + checkpoints
      most += documents.most + checkpoints
    }
    const { checkpoints, documents, unchanged } = answer.value ?? {}
    const items = checkpoints + documents + unchanged
    if (answer.value) demand(items >= least && items <= most, `copyTo counted ${items} items of ${least} to ${most}`)
    return {
      sessions,
      checkpoints: matching(
        `from ${copied} to ${copied + mayBeCopied}`,
        (value) => value >= copied && value <= copied + mayBeCopied,
      ),
      documents: anyNumber,
      unchanged: anyNumber,
      sizeBytes: anyNumber,
    }
  }

  /** Takes over what another store has of a session. What only this one has stays. */
  #receive(sessionId, source) {
    const old = this.#find(sessionId)
    const record = old ? structuredClone(old) : newSession()
    this.location.sessions.set(sessionId, record)
    let [copied, mayBeCopied, certain] = [0, 0, 0]
    const isOther = (mine, theirs) => theirs !== null && !same(mine, theirs)
    if (isOther(record.document, source.document)) {
      this.#writeDocument(record, structuredClone(source.document))
      certain += 1
    }
    if (isOther(record.taskTree, source.taskTree)) {
      this.#writeTree(record, structuredClone(source.taskTree))
      certain += 1
    }
    if (isOther(record.retention, source.retention)) {
      record.retention = structuredClone(source.retention)
      certain += 1
    }
    for (const [taskId, result] of source.results) {
      if (record.results.has(taskId) && same(record.results.get(taskId), result)) continue
      record.results.set(taskId, structuredClone(result))
      certain += 1
    }
    record.labelEntries += source.labelEntries
    const receive = (mine, theirs) => {
      for (const [id, checkpoint] of theirs) {
        const present = mine.get(id)
        if (!present) copied += 1
        else if (checkpoint.encoding !== 'json' || present.encoding !== 'json') mayBeCopied += 1
        if (!present || (checkpoint.isPinned && !present.isPinned)) certain += 1
        const received = structuredClone(checkpoint)
        received.isPinned ||= present?.isPinned ?? false
        // A label that was given to a checkpoint of both, in the target alone, may stay or go.
        if (present?.wasRelabelled && !checkpoint.wasRelabelled) {
          received.possibleLabels = [present.label, checkpoint.label]
          received.wasRelabelled = true
        }
        // One that is there in another encoding may stay in that, or be replaced.
        const encodings = [present, checkpoint].flatMap((each) => each?.possibleEncodings ?? each?.encoding ?? [])
        if (new Set(encodings).size > 1) received.possibleEncodings = encodings
        // The bytes of a delta depend on its base in the target.
        const hasOtherBytes = present && present.sizeBytes !== checkpoint.sizeBytes
        if (encodings.includes('delta') || hasOtherBytes) received.sizeBytes = undefined
        mine.set(id, received)
      }
    }
    receive(record.checkpoints, source.checkpoints)
    for (const [agentId, checkpoints] of source.agents) {
      if (!record.agents.has(agentId)) record.agents.set(agentId, new Map())
      receive(record.agents.get(agentId), checkpoints)
    }
    return { copied, mayBeCopied, certain: certain + copied }
  }

  /** Checkpoints whose labels a copy left open: each is to be looked up and told to `learnLabel()`. */
  labelsInDoubt(sessionId) {
    return this.checkpointsOf(sessionId).filter(({ possibleLabels }) => possibleLabels !== undefined)
  }

  learnLabel(sessionId, checkpointId, label) {
    const checkpoint = this.#find(sessionId).checkpoints.get(checkpointId)
    const { possibleLabels } = checkpoint
    demand(
      possibleLabels.includes(label),
      `checkpoint ${checkpointId} has the label ${label}, not one of ${possibleLabels}`,
    )
    checkpoint.label = label
    // One that stayed was given in the target alone.
    checkpoint.wasRelabelled = label === possibleLabels[0]
    checkpoint.possibleLabels = undefined
  }

  // Agents

  #agent(sessionId, agentId) {
    return this.#find(sessionId)?.agents.get(agentId) ?? new Map()
  }

  listAgents(sessionId) {
    const agents = [...(this.#find(sessionId)?.agents ?? [])]
    return agents
      .filter(([, checkpoints]) => checkpoints.size > 0)
      .map(([id]) => id)
      .toSorted()
  }

  /** The checkpoints of an agent, newest first, expired ones included. */
  agentCheckpointsOf(sessionId, agentId) {
    return newestFirst(this.#agent(sessionId, agentId))
  }

  agentSave(sessionId, agentId, state, options = {}, answer, calledAt) {
    this.#mayWrite(sessionId)
    const id = answer.value?.checkpointId
    const timestamp = this.#checkNewId(id, this.#agent(sessionId, agentId), calledAt)
    const { context, ...members } = state
    const content = throughJson(members)
    for (const member of RESERVED) delete content[member]
    const record = this.#make(sessionId)
    if (!record.agents.has(agentId)) record.agents.set(agentId, new Map())
    const checkpoints = record.agents.get(agentId)
    checkpoints.set(id, {
      id,
      sessionId,
      agentId,
      timestamp,
      content: { messages: [], toolCalls: [], ...content },
      context,
      encoding: options.encoding ?? (options.compress ? 'gzip' : this.options.encoding) ?? 'json',
      sizeBytes: answer.value.sizeBytes,
    })
    const limit = this.options.maxCheckpointsPerAgent ?? DEFAULT_LIMIT
    for (const gone of newestFirst(checkpoints).slice(limit)) checkpoints.delete(gone.id)
    return { success: true, checkpointId: id, path: anyString, sizeBytes: matching('a size', isSize) }
  }

  #fullAgent(checkpoint) {
    const { id, sessionId, agentId, timestamp, content, context } = checkpoint
    const expiresAt = expiryOf(checkpoint)
    return {
      ...content,
      id,
      sessionId,
      agentId,
      timestamp,
      expiresAt,
      context,
      version: '1.0.0',
      sizeBytes: sizeOf(checkpoint),
      messageCount: content.messages.length,
      toolCallCount: content.toolCalls.length,
      integrity: integrityOf(checkpoint),
    }
  }

  #agentInfo(checkpoint) {
    const { id, timestamp, content } = checkpoint
    const expiresAt = expiryOf(checkpoint)
    const { iteration, status, statusReason, label, tokensUsed, costEstimate } = content
    return {
      id,
      timestamp,
      iteration,
      status,
      statusReason,
      label,
      tokensUsed,
      costEstimate,
      expiresAt,
      messageCount: content.messages.length,
      toolCallCount: content.toolCalls.length,
      sizeBytes: sizeOf(checkpoint),
      encoding: encodingOf(checkpoint),
    }
  }

  #current(sessionId, agentId, order = 'newest') {
    const now = Date.now()
    const found = this.agentCheckpointsOf(sessionId, agentId)
    const current = found.filter((checkpoint) => !(expiryOf(checkpoint) <= now))
    if (order === 'newest') return current
    const iterationOf = ({ content }) => content.iteration ?? 0
    return current.toReversed().toSorted((a, b) => iterationOf(a) - iterationOf(b))
  }

  /** All pages of a list one after another. */
  agentList(sessionId, agentId, { order } = {}, isInfo = false) {
    const current = this.#current(sessionId, agentId, order)
    const shown = current.map((checkpoint) => (isInfo ? this.#agentInfo(checkpoint) : this.#fullAgent(checkpoint)))
    return { checkpoints: shown, total: current.length }
  }

  agentLatest(sessionId, agentId) {
    const [newest] = this.#current(sessionId, agentId)
    return newest ? this.#fullAgent(newest) : null
  }

  agentGet(sessionId, agentId, checkpointId) {
    const checkpoint = this.#agent(sessionId, agentId).get(checkpointId)
    return checkpoint ? this.#fullAgent(checkpoint) : null
  }

  agentHas(sessionId, agentId) {
    return this.#current(sessionId, agentId).length > 0
  }

  agentPrune(sessionId, agentId, keep, answer) {
    const stays = new Set(this.#current(sessionId, agentId).slice(0, keep))
    const gone = this.agentCheckpointsOf(sessionId, agentId).filter((checkpoint) => !stays.has(checkpoint))
    return this.#removeFromAgent(sessionId, agentId, gone, gone.length, answer)
  }

  agentClear(sessionId, agentId, answer) {
    const gone = this.agentCheckpointsOf(sessionId, agentId)
    return this.#removeFromAgent(sessionId, agentId, gone, gone.length, answer)
  }

  agentDelete(sessionId, agentId, checkpointId, answer) {
    const gone = this.agentCheckpointsOf(sessionId, agentId).filter(({ id }) => id === checkpointId)
    return this.#removeFromAgent(sessionId, agentId, gone, { success: true }, answer)
  }

  #removeFromAgent(sessionId, agentId, gone, expected, answer) {
    if (gone.length === 0) return this.#noChange(sessionId, answer, expected)
    this.#mayWrite(sessionId)
    for (const { id } of gone) this.#agent(sessionId, agentId).delete(id)
    return expected
  }

  agentVerify(sessionId, agentId, checkpointId) {
    const checkpoint = this.#agent(sessionId, agentId).get(checkpointId)
    if (!checkpoint) throw new Refusal(['WAYMARK_NOT_FOUND'])
    return { id: checkpointId, path: anyString, whole: true, sizeBytes: sizeOf(checkpoint) }
  }

  // Leases

  acquireSession(sessionId, { owner, force = false }, answer) {
    const lease = this.location.leases.get(sessionId)
    if (lease?.isHeld && !force) throw new Refusal(['WAYMARK_LEASE_HELD'])
    return this.#acquire(sessionId, owner, answer.value?.number)
  }

  #acquire(sessionId, owner, number) {
    const before = this.location.leases.get(sessionId)?.number ?? 0
    demand(Number.isSafeInteger(number) && number > before, `lease ${number} does not follow ${before}`)
    this.location.leases.set(sessionId, { owner, number, isHeld: true })
    this.leases.set(sessionId, number)
    return { sessionId, owner, number, isLost: false, isReleased: false, expiresAt: anyNumber }
  }

  acquireNext({ owner, status = WORKING }, answer) {
    const wanted = new Set([status].flat())
    const free = this.#ids(({ document }) => document && wanted.has(document.status)).filter(
      (id) => !this.location.leases.get(id)?.isHeld,
    )
    if (free.length === 0) return null
    const { sessionId, number } = answer.value ?? {}
    demand(free.includes(sessionId), `acquireNext took ${sessionId}, not one of ${free}`)
    return this.#acquire(sessionId, owner, number)
  }

  renewLease(sessionId, number, isReleased) {
    const lease = this.location.leases.get(sessionId)
    if (isReleased || lease.number !== number || !lease.isHeld) throw new Refusal(['WAYMARK_LEASE_LOST'])
    return undefined
  }

  releaseLease(sessionId, number) {
    const lease = this.location.leases.get(sessionId)
    if (lease.number === number) lease.isHeld = false
    if (this.leases.get(sessionId) === number) this.leases.delete(sessionId)
    return undefined
  }
}

/** What changed between two objects, by key. */
function differencesOf(before, after) {
  const changed = []
  for (const [id, value] of Object.entries(after)) {
    if (!(id in before) || same(before[id], value)) continue
    const isPlain = (each) => typeof each === 'object' && each !== null && !Array.isArray(each)
    const both = isPlain(before[id]) && isPlain(value)
    const keys = both ? [...new Set([...Object.keys(before[id]), ...Object.keys(value)])] : []
    const members = keys.filter((key) => !same(before[id][key], value[key]))
    const statuses = [before[id]?.status ?? null, value?.status ?? null]
    const status = both && members.includes('status') ? { from: statuses[0], to: statuses[1] } : undefined
    changed.push({ id, members: inAnyOrder(members, (member) => member), status })
  }
  return {
    added: Object.keys(after).filter((id) => !(id in before)),
    removed: Object.keys(before).filter((id) => !(id in after)),
    changed,
  }
}
