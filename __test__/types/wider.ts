// An orchestrator whose own types have more members than ours, and everything that the original did not have.

import { CheckpointStore, SessionLease } from 'waymark'
import type {
  CheckpointDiff,
  CheckpointEncoding,
  CheckpointList,
  CheckpointReference,
  CheckpointStoreOptions,
  DamagedCheckpoint,
  ExportResult,
  HierarchicalTask,
  ImportResult,
  PruneFailure,
  PruneOptions,
  PruneResult,
  PrunedCheckpoint,
  RestoredState,
  Retention,
  StopSignal,
  SwarmSession,
  WaymarkErrorCode,
  WorkOptions,
  WorkProgress,
} from 'waymark'

interface CostedTask extends HierarchicalTask {
  costUsd: number
}

interface TeamSession extends SwarmSession {
  team: string
  budget: { usd: number }
  taskTree: Map<string, CostedTask>
}

export async function widerTypes(store: CheckpointStore, session: TeamSession): Promise<string> {
  await store.saveSession(session)
  await store.saveTaskTree(session.id, session.taskTree)
  await store.createCheckpoint(session, { trigger: 'auto' })
  const loaded = await store.loadSession<TeamSession>(session.id)
  const tree = await store.loadTaskTree<CostedTask>(session.id)
  const cost: number | undefined = tree?.['task-1']?.costUsd
  return `${loaded?.team} ${loaded?.budget.usd} ${cost}`
}

export async function added(): Promise<WaymarkErrorCode | undefined> {
  const options: CheckpointStoreOptions = { maxCheckpointsPerSession: 5, durability: 'relaxed', maxReadBytes: 1e9 }
  const store = new CheckpointStore('memory:', options)
  await store.initialize()
  const listed: CheckpointList = await store.listCheckpoints('s')
  const damaged: DamagedCheckpoint | undefined = listed.damaged[0]
  const byIds = await store.restoreCheckpoint('s', 'cp-1', { validateChecksum: true })
  const byName = await store.restoreCheckpoint({ checkpointId: 'cp-1', sessionId: 's', includeState: true })
  const state: RestoredState | undefined = byName.state
  const integrity: string | undefined = (await store.getLatestCheckpoint('s'))?.integrity
  const reference: CheckpointReference = { sessionId: 's', checkpointId: 'cp-1' }
  const diff: CheckpointDiff = await store.diffCheckpoints(reference, 's/cp-2')
  const from: string | null | undefined = diff.tasks.changed[0]?.status?.from
  const again: CheckpointDiff = await store.diffCheckpoints(diff.b, diff.a)
  if (from === again.agents.changed[0]?.members[0]) return undefined
  await store.close()
  return damaged?.code ?? byIds.code ?? (integrity && state ? 'WAYMARK_CORRUPT' : undefined)
}

export async function retained(store: CheckpointStore): Promise<string | undefined> {
  const retention: Retention = {
    keepLast: 5,
    keepHourly: 24,
    keepDaily: 7,
    maxAgeMs: 1,
    maxBytes: 1,
    keepLabelled: false,
  }
  const options: CheckpointStoreOptions = { retention, maxCheckpointsPerSession: 5 }
  void new CheckpointStore('memory:', options)
  const nothing: void = await store.setRetention('s', retention)
  await store.setRetention('s', null)
  const own: Retention | null = await store.getRetention('s')
  const wanted: PruneOptions = { dryRun: true, retention: own ?? {} }
  const pruned: PruneResult = await store.prune('s', wanted)
  for (const result of [await store.prune(), await store.prune({ dryRun: true }), await store.prune(undefined, {})]) {
    if (result.dryRun && result.kept > result.freedBytes) return result.removed[0]?.agentId
  }
  const gone: PrunedCheckpoint | undefined = pruned.removed[0]
  const failure: PruneFailure | undefined = pruned.failed[0]
  const code: WaymarkErrorCode | undefined = failure?.code
  return gone ? `${gone.checkpointId} ${gone.timestamp} ${gone.sizeBytes} ${gone.reason}` : `${code} ${nothing}`
}

export async function carried(store: CheckpointStore, signal: StopSignal): Promise<number> {
  const seen: WorkProgress[] = []
  const watched: WorkOptions = { signal, onProgress: (progress) => void seen.push(progress) }
  const out: ExportResult = await store.exportSession('s', 's.zst', watched)
  const back: ImportResult = await store.importSession(out.file, { ...watched, as: 'other' })
  const phase: WorkProgress['phase'] | undefined = seen[0]?.phase
  const rest: number | undefined = seen[0]?.totalBytes
  return phase === 'export' ? out.sizeBytes + out.bytes : back.checkpoints + back.documents + (rest ?? 0)
}

export async function owned(store: CheckpointStore, session: SwarmSession): Promise<string | null | undefined> {
  const lease: SessionLease = await store.acquireSession('s', {
    owner: 'me',
    ttlMs: 1000,
    waitMs: Infinity,
    force: true,
  })
  const next: SessionLease | null = await store.acquireNext({ status: ['active', 'paused'] })
  const isStopped: boolean = lease.signal.aborted || lease.isLost || lease.number < (next?.number ?? 0)
  const loaded = await store.loadSession('s', { withRevision: true })
  const plain = await store.loadSession('s', { version: -1 })
  const saved = await store.saveSession(session, { ifRevision: loaded?.revision ?? null })
  const created = await store.createCheckpoint(session, { trigger: 'auto', ifParent: null })
  return isStopped ? (loaded?.session.name ?? plain?.name) : (saved.current ?? created.current)
}

export async function encoded(session: SwarmSession): Promise<CheckpointEncoding | undefined> {
  const encodings: CheckpointEncoding[] = ['json', 'gzip', 'zstd', 'delta']
  const store = new CheckpointStore('memory:', { encoding: 'delta', deltaCacheBytes: 0 })
  for (const encoding of encodings) {
    await store.createCheckpoint(session, { trigger: 'auto', encoding })
    await store.agent(session.id, 'a').save({ iteration: 1 }, { encoding })
  }
  const auto = store.autoCheckpoint({
    sessionId: session.id,
    capture: () => ({ session }),
    options: { encoding: 'zstd' },
  })
  await auto.now({ encoding: 'delta' })
  const { checkpoints } = await store.listCheckpointInfo(session.id)
  return checkpoints[0]?.encoding
}

export async function disposed(): Promise<string[]> {
  const store = new CheckpointStore()
  const dispose: () => Promise<void> = store[Symbol.asyncDispose].bind(store)
  await dispose()
  return store.listSessions()
}

export function refused(store: CheckpointStore, session: SwarmSession): void {
  // @ts-expect-error a trigger is one of four
  void store.createCheckpoint(session, { trigger: 'whim' })
  // @ts-expect-error a checkpoint needs its options
  void store.createCheckpoint(session)
  // @ts-expect-error a session needs its members
  void store.saveSession({ id: 's' })
  // @ts-expect-error ids are strings
  void store.loadSession(5)
  // @ts-expect-error a retention has no such member
  void store.setRetention('s', { keepWeekly: 4 })
  // @ts-expect-error a retention is an object, or null
  void store.setRetention('s')
  // @ts-expect-error options come last
  void store.prune({ dryRun: true }, 's')
  // @ts-expect-error durability is one of two
  void new CheckpointStore('x', { durability: 'best' })
  // @ts-expect-error an export needs a file
  void store.exportSession('s')
  // @ts-expect-error a file is named by its path
  void store.importSession({ href: 'file:///s.zst' })
  // @ts-expect-error a lease is acquired
  void new SessionLease()
  // @ts-expect-error a time is a number
  void store.acquireSession('s', { ttlMs: '1s' })
  // @ts-expect-error a status is one of those of a session
  void store.acquireNext({ status: 'unowned' })
  // @ts-expect-error a revision is a text
  void store.saveSession(session, { ifRevision: 5 })
  // @ts-expect-error a signal can be listened to
  void store.importSession('s.zst', { signal: { aborted: false } })
  // @ts-expect-error an export keeps the id
  void store.exportSession('s', 's.zst', { as: 'other' })
  // @ts-expect-error an encoding is one of four
  void new CheckpointStore('x', { encoding: 'brotli' })
  // @ts-expect-error an encoding is one of four
  void store.createCheckpoint(session, { trigger: 'auto', encoding: 'gz' })
  // @ts-expect-error an encoding is one of four
  void store.agent('s', 'a').save({}, { encoding: true })
  // @ts-expect-error bytes are counted
  void new CheckpointStore('x', { deltaCacheBytes: '64 MiB' })
  // @ts-expect-error a restore needs to know what
  void store.restoreCheckpoint({ validateChecksum: true })
  // @ts-expect-error a checkpoint is compared with another
  void store.diffCheckpoints({ sessionId: 's', checkpointId: 'cp-1' })
}
