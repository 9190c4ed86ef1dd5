// Short phases, each for one kind of conflict between stores on one location. A phase runs one round on a new
// location and resolves to `{ tried, found }`: its counts, and its findings.

import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { startActor } from './actor.mjs'
import { told } from './calls.mjs'
import { listed, unreadable } from './judge.mjs'
import { CheckpointStore } from './locations.mjs'
import { ENCODINGS, argumentsOf, created, stateOf } from './state.mjs'

const KEEP_ALL = { maxCheckpointsPerSession: Infinity, maxCheckpointsPerAgent: Infinity }
const SESSION = 's'

/** Several stores on one location, half of the time in separate processes. */
async function startActors(storage, count, random, options = KEEP_ALL) {
  const isLocal = !storage.isShared || random.chance(0.5)
  return Promise.all(Array.from({ length: count }, () => startActor(storage, { options, isLocal })))
}

/** Runs a round on a new location, which is removed afterwards. */
async function onNewLocation(context, round) {
  const storage = context.newLocation()
  const actors = []
  try {
    return await round(storage, actors)
  } finally {
    await Promise.all(actors.map((actor) => actor.end()))
    await storage.remove()
  }
}

/** Checkpoints by one caller, in the encodings given, one after the other: a Map from id to token. */
async function filled(actor, { count, encodings, name = 'first', session = SESSION }) {
  const made = new Map()
  for (let number = 0; number < count; number += 1) {
    const token = `${name}-${number}`
    const encoding = encodings[number % encodings.length]
    const { checkpointId } = await actor.call('createCheckpoint', ...argumentsOf(session, token, { encoding }))
    made.set(checkpointId, token)
  }
  return made
}

const outcomes = (promises) => Promise.allSettled(promises)

/** A finding for every call that failed with a code that is not allowed. */
function failures(settled, allowed = []) {
  const failed = settled.filter(({ status, reason }) => status === 'rejected' && !allowed.includes(reason.code))
  return failed.map(({ reason }) => `a call failed with ${told(reason)}`)
}

/** Judged by a new store object, if the backend allows one. */
const judged = async (storage, made, session = SESSION) => unreadable(await storage.open(KEEP_ALL), session, made)

/** A conversion is aborted, and one to another encoding follows. */
async function abortedConversion(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const found = []
    const durability = random.pick(['full', 'relaxed'])
    actors.push(await startActor(storage, { options: { ...KEEP_ALL, durability } }))
    const [actor] = actors
    const made = await filled(actor, { count: 40, encodings: ['delta'] })
    let aborted = 0
    const way = ['zstd', 'delta', random.pick(['json', 'gzip', 'zstd']), 'delta']
    for (const [index, encoding] of way.entries()) {
      // Every other conversion is aborted; new checkpoints are created in between.
      const isStopped = index % 2 === 0
      const options = isStopped ? { $abortMs: random.between(1, 25) } : {}
      const [outcome] = await outcomes([actor.call('convert', SESSION, encoding, options)])
      if (outcome.reason?.code === 'ABORT_ERR') aborted += 1
      else found.push(...failures([outcome]))
      for (const [id, token] of await filled(actor, { count: 3, encodings: ['delta'], name: `step-${index}` })) {
        made.set(id, token)
      }
    }
    found.push(...(await judged(storage, made)))
    return { tried: { conversions: way.length, aborted, checkpoints: made.size }, found }
  })
}

/** Several stores convert the same session at once. */
async function conversionsAtOnce(context, encodings) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const durability = random.pick(['full', 'full', 'full', 'relaxed'])
    actors.push(...(await startActors(storage, encodings.length, random, { ...KEEP_ALL, durability })))
    const before = random.pick([['json'], ['zstd'], ['zstd', 'json', 'delta']])
    const made = await filled(actors[0], { count: 60, encodings: before })
    const settled = await outcomes(actors.map((actor, index) => actor.call('convert', SESSION, encodings[index], {})))
    const found = [...failures(settled), ...(await judged(storage, made))]
    // The limit counts checkpoints, however many encodings of each there are.
    await actors[0].call('prune', SESSION, { retention: { keepLast: 10 } })
    const kept = new Map([...made].slice(-10))
    found.push(...(await judged(storage, kept)).map((text) => `after keepLast 10: ${text}`))
    const { total } = await actors[0].call('listCheckpointInfo', SESSION)
    if (total !== 10) found.push(`keepLast 10 left ${total} checkpoints in the list`)
    return { tried: { conversions: actors.length, checkpoints: made.size }, found }
  })
}

/** A copy onto a target that has diverged since the last copy. */
async function divergedCopy(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const other = context.newLocation()
    try {
      const options = { ...KEEP_ALL, encoding: 'delta' }
      actors.push(await startActor(storage, { options }), await startActor(other, { options }))
      const [source, target] = actors
      const shared = await filled(source, {
        count: 6,
        encodings: [random.pick(['zstd', 'zstd', 'delta'])],
        name: 'shared',
      })
      await source.copyTo(target, { sessionId: SESSION })
      const onTarget = new Map(shared)
      const onSource = new Map(shared)
      for (let turn = 0; turn < 3; turn += 1) {
        // Both create bases of their own, from the same checkpoints.
        for (const actor of [source, target]) {
          if (random.chance(0.5)) await actor.call('convert', SESSION, 'zstd', {})
          await actor.call('convert', SESSION, 'delta', {})
        }
        for (const [actor, own, name] of [
          [source, onSource, 'source'],
          [target, onTarget, 'target'],
        ]) {
          for (const [id, token] of await filled(actor, { count: 10, encodings: ['delta'], name: `${name}-${turn}` })) {
            own.set(id, token)
          }
        }
        const isBack = random.chance(0.3)
        const [from, to] = isBack ? [target, source] : [source, target]
        await from.copyTo(to, { sessionId: SESSION })
        for (const [id, token] of isBack ? onTarget : onSource) (isBack ? onSource : onTarget).set(id, token)
      }
      const found = [
        ...(await judged(storage, onSource)).map((text) => `source: ${text}`),
        ...(await judged(other, onTarget)).map((text) => `target: ${text}`),
      ]
      return { tried: { copies: 4, checkpoints: onSource.size + onTarget.size }, found }
    } finally {
      await Promise.all(actors.splice(0).map((actor) => actor.end()))
      await other.remove()
    }
  })
}

/** The files are copied after `close()`, while the process that closed them lives, and the copy is opened. */
async function copiedAfterClose(context) {
  const { backend, random } = context
  if (!['files', 'sqlite'].includes(backend)) return { skipped: `${backend} has no files to copy` }
  return onNewLocation(context, async (storage) => {
    const found = []
    const before = openFiles()
    const cycles = 12
    const made = new Map()
    for (let cycle = 0; cycle < cycles; cycle += 1) {
      const store = new CheckpointStore(storage.location, KEEP_ALL)
      await store.initialize()
      for (let number = 0; number < 4; number += 1) {
        const token = `cycle-${cycle}-${number}`
        const encoding = random.pick(ENCODINGS)
        made.set(await created(store, SESSION, token, { encoding }), token)
        await store.listCheckpointInfo(SESSION)
      }
      await store.close()
    }
    const copy = mkdtempSync(join(tmpdir(), 'waymark-copied-'))
    try {
      // Of a database its file alone: after `close()` it is complete.
      const name = backend === 'sqlite' ? 'store.db' : 'store'
      cpSync(join(storage.directory, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
      const location = backend === 'sqlite' ? `sqlite:${join(copy, name)}` : join(copy, name)
      const store = new CheckpointStore(location, { ...KEEP_ALL, mustExist: true })
      try {
        await store.initialize()
        found.push(...(await unreadable(store, SESSION, made)).map((text) => `in the copy: ${text}`))
      } catch (error) {
        found.push(`the copy does not open: ${told(error)}`)
      }
      await store.close()
    } finally {
      rmSync(copy, { recursive: true, force: true })
    }
    const left = openFiles() - before
    if (left > cycles / 2) found.push(`${left} descriptors are open after ${cycles} times initialize() and close()`)
    return { tried: { cycles, checkpoints: made.size }, found }
  })
}

/** The number of open descriptors of this process, where the system reports it. */
function openFiles() {
  const directory = '/proc/self/fd'
  return existsSync(directory) ? readdirSync(directory).length : 0
}

/** When stores alternate, lists are in the order of the acknowledgements. */
async function turns(context, { env, skewMs = 0 } = {}) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const found = []
    const options = KEEP_ALL
    actors.push(await startActor(storage, { options }))
    actors.push(await startActor(storage, { options, env, isLocal: !storage.isShared }))
    const count = 40
    for (let turn = 0; turn < count; turn += 1) {
      const [writer, reader] = turn % 2 === 0 ? actors : actors.toReversed()
      const token = `turn-${turn}`
      const encoding = random.pick(ENCODINGS)
      const { checkpointId } = await writer.call('createCheckpoint', ...argumentsOf(SESSION, token, { encoding }))
      const [latest, { checkpoints }, recovered] = await Promise.all([
        reader.call('getLatestCheckpoint', SESSION),
        reader.call('listCheckpointInfo', SESSION, { limit: 1 }),
        turn % 4 === 0 ? reader.call('recoverSession', SESSION, { dryRun: true }) : undefined,
      ])
      const newest = [latest?.id, checkpoints[0]?.id, recovered?.checkpointId ?? checkpointId]
      const wrong = newest.find((id) => id !== checkpointId)
      if (wrong)
        found.push(
          `turn ${turn} of ${count} is not the newest: ${checkpointId} was acknowledged last, ${wrong} is shown`,
        )
      const ahead = timeOf(checkpointId) - Date.now()
      if (ahead > skewMs + 5000) found.push(`turn ${turn}: the id is ${Math.round(ahead / 1000)} s ahead of the clock`)
    }
    return { tried: { turns: count }, found }
  })
}

/** The same at full speed. */
async function fastTurns(context) {
  const { random } = context
  return onNewLocation(context, async (storage) => {
    const options = { ...KEEP_ALL, durability: random.pick(['full', 'relaxed']) }
    const stores = [await storage.open(options), await storage.open(options)]
    const acknowledged = []
    for (let turn = 0; turn < 100; turn += 1) {
      acknowledged.push(await created(stores[turn % 2], SESSION, `turn-${turn}`))
    }
    const { shown } = await listed(stores[0], SESSION)
    const order = shown.map(({ id }) => id).toReversed()
    const wrong = acknowledged.filter((id, index) => order[index] !== id).length
    const found =
      wrong > 0
        ? [`${wrong} of ${acknowledged.length} turns are not listed in the order of their acknowledgements`]
        : []
    return { tried: { turns: acknowledged.length }, found }
  })
}

const timeOf = (id) => Number.parseInt(id.split('-')[1], 36)

const FAKETIME = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/faketime/libfaketimeMT.so.1',
  '/usr/lib64/faketime/libfaketimeMT.so.1',
].find((path) => existsSync(path))

/** The same with clocks that are two seconds apart. */
async function skewedTurns(context) {
  if (!context.isShared) return { skipped: 'one process has one clock' }
  if (!FAKETIME) return { skipped: 'libfaketime is not installed' }
  const offset = context.random.pick(['+2', '-2'])
  const env = { LD_PRELOAD: FAKETIME, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
  return turns(context, { env, skewMs: 2000 })
}

/** Labels are set while other labels are set and checkpoints are created. */
async function labelsAtOnce(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    actors.push(
      ...(await startActors(storage, 2, random, { ...KEEP_ALL, durability: random.pick(['full', 'relaxed']) })),
    )
    const made = new Map()
    const labels = new Map()
    const settled = await outcomes(
      actors.flatMap((actor, index) => {
        const lane = async (number) => {
          for (let round = 0; round < 6; round += 1) {
            const name = `${index}-${number}-${round}`
            const { checkpointId } = await actor.call('createCheckpoint', ...argumentsOf(SESSION, name))
            made.set(checkpointId, name)
            await actor.call('labelCheckpoint', SESSION, checkpointId, `label ${name}`)
            labels.set(checkpointId, `label ${name}`)
          }
        }
        return [0, 1, 2, 3].map(lane)
      }),
    )
    const store = await storage.open(KEEP_ALL)
    const found = [...failures(settled), ...(await unreadable(store, SESSION, made))]
    const { checkpoints } = await store.listCheckpointInfo(SESSION)
    const shown = new Map(checkpoints.map(({ id, label }) => [id, label]))
    for (const [id, label] of labels) {
      if (shown.get(id) !== label) found.push(`${id}: ${label} was acknowledged, ${shown.get(id)} is there`)
    }
    return { tried: { labels: labels.size }, found }
  })
}

/** Checkpoints get a label or a pin when retention is about to remove them: acknowledged ones are kept. */
async function marksBesideRetention(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const options = { retention: { keepLast: 3 }, durability: random.pick(['full', 'relaxed']) }
    actors.push(...(await startActors(storage, 2, random, options)))
    const [writer, marker] = actors
    const marked = new Map()
    const state = { isOver: false, made: new Map() }
    const writing = (async () => {
      for (let number = 0; number < 40; number += 1) {
        const token = `made-${number}`
        const encoding = random.pick(ENCODINGS)
        const { checkpointId } = await writer.call('createCheckpoint', ...argumentsOf(SESSION, token, { encoding }))
        state.made.set(checkpointId, token)
      }
      state.isOver = true
    })()
    const marking = [0, 1].map(async (lane) => {
      while (!state.isOver) {
        const id = [...state.made.keys()].at(-random.between(2, 4))
        if (!id || marked.has(id)) {
          await sleep(1)
          continue
        }
        const method = lane === 0 ? 'labelCheckpoint' : 'pinCheckpoint'
        const [outcome] = await outcomes([marker.call(method, SESSION, id, ...(lane === 0 ? [`label ${id}`] : []))])
        if (outcome.status === 'fulfilled') marked.set(id, method)
        else if (outcome.reason.code !== 'WAYMARK_NOT_FOUND') throw outcome.reason
      }
    })
    const found = failures(await outcomes([writing, ...marking]))
    await actors[0].call('prune', SESSION)
    const store = await storage.open(options)
    for (const method of ['labelCheckpoint', 'pinCheckpoint']) {
      const ids = [...marked.keys()].filter((id) => marked.get(id) === method)
      const kept = new Map(ids.map((id) => [id, state.made.get(id)]))
      for (const text of await unreadable(store, SESSION, kept)) found.push(`after ${method}: ${text}`)
    }
    return { tried: { marked: marked.size, checkpoints: state.made.size }, found }
  })
}

/** Several stores set the same unique label at once. */
async function uniqueLabels(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const limit = random.pick([Infinity, 3])
    actors.push(...(await startActors(storage, 3, random, { ...KEEP_ALL, maxCheckpointsPerSession: limit })))
    const found = []
    const rounds = 8
    for (let round = 0; round < rounds; round += 1) {
      const label = `only ${round}`
      // With createCheckpoint, labelCheckpoint, or both.
      const [low, high] = random.pick([
        [3, 3],
        [0, 0],
        [1, 2],
      ])
      const creators = random.between(low, high)
      const made = [...(await filled(actors[0], { count: 3, encodings: ['json'], name: label })).keys()]
      const settled = await outcomes(
        actors.map((actor, index) =>
          index < creators
            ? actor.call('createCheckpoint', ...argumentsOf(SESSION, `${label}-${index}`, { label, uniqueLabel: true }))
            : actor.call('labelCheckpoint', SESSION, made[index], label, { unique: true }),
        ),
      )
      found.push(...failures(settled, ['WAYMARK_EXISTS']))
      const given = settled.filter(({ status }) => status === 'fulfilled').length
      if (given !== 1) found.push(`${label} was given ${given} times, with ${creators} calls of createCheckpoint`)
      const { checkpoints } = await actors[0].call('listCheckpointInfo', SESSION, { label })
      if (checkpoints.length > 1) found.push(`${checkpoints.length} checkpoints have the label ${label}`)
      // A checkpoint whose label is rejected replaces no other.
      const { total } = await actors[0].call('listCheckpointInfo', SESSION)
      if (total < Math.min(limit, 3)) found.push(`${total} checkpoints are left, with a limit of ${limit}`)
    }
    return { tried: { labels: rounds }, found }
  })
}

/** Sessions are activated while other stores expire them. */
async function expiries(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    actors.push(
      ...(await startActors(storage, 2, random, { ...KEEP_ALL, durability: random.pick(['full', 'relaxed']) })),
    )
    const [owner, cleaner] = actors
    const found = []
    const state = { isOver: false }
    const sessions = ['e0', 'e1', 'e2']
    let expired = 0
    const cleaning = (async () => {
      while (!state.isOver) {
        const action = random.chance(0.8) ? 'delete' : 'archive'
        expired += (await cleaner.call('expireSessions', Date.now(), { action })).length
      }
    })()
    let taken = 0
    const working = sessions.map(async (id) => {
      for (let round = 0; round < 12; round += 1) {
        const { session } = stateOf(id, `${id}-${round}`)
        await owner.call('saveSession', { ...session, status: 'paused', expiresAt: 1 })
        if (round % 3 === 0) await sleep(random.between(0, 4))
        // From here on it must not be deleted.
        await owner.call('saveSession', { ...session, status: 'active', expiresAt: 1 })
        const made = await filled(owner, {
          count: 2,
          encodings: ['json', 'delta'],
          name: `${id}-${round}`,
          session: id,
        })
        taken += made.size
        const { checkpoints } = await owner.call('listCheckpointInfo', id)
        const shown = new Set(checkpoints.map((checkpoint) => checkpoint.id))
        for (const key of made.keys()) {
          if (!shown.has(key))
            found.push(`${key} was made after ${id} was taken up again, and was deleted by an expiry`)
        }
        const loaded = await owner.call('loadSession', id)
        if (loaded?.status !== 'active') found.push(`${id} was taken up again, and is ${loaded?.status ?? 'gone'}`)
      }
    })
    const settled = await outcomes(working)
    state.isOver = true
    settled.push(...(await outcomes([cleaning])))
    found.push(...failures(settled))
    return { tried: { checkpoints: taken, expired }, found }
  })
}

/** A rejected createCheckpoint leaves nothing. */
async function refusedCreates(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    actors.push(...(await startActors(storage, 2, random)))
    const found = []
    const settled = await outcomes(
      actors.flatMap((actor, index) =>
        ENCODINGS.map((encoding) => {
          const options = { encoding, ifParent: 'cp-mwima86h-000000' }
          return actor.call('createCheckpoint', ...argumentsOf(`refused-${index}-${encoding}`, 'token', options))
        }),
      ),
    )
    found.push(...failures(settled, ['WAYMARK_CONFLICT']))
    const store = await storage.open(KEEP_ALL)
    for (const [index] of actors.entries()) {
      for (const encoding of ENCODINGS)
        found.push(...(await emptySession(storage, store, `refused-${index}-${encoding}`)))
    }
    return { tried: { refused: settled.length }, found }
  })
}

/** A finding if a session exists that was never stored. */
async function emptySession(storage, store, id) {
  const isThere = await store.prune(id).then(
    () => true,
    (error) => error.code !== 'WAYMARK_NOT_FOUND',
  )
  const hasFolder = storage.backend === 'files' && existsSync(join(storage.location, id))
  return isThere || hasFolder ? [`${id} is left, empty, by a create that was refused`] : []
}

/** Checkpoints are created and listed while their session is deleted. */
async function deletionsAtOnce(context) {
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    actors.push(...(await startActors(storage, 2, random, { ...KEEP_ALL, durability: 'relaxed' })))
    const deletions = ['deleteSession', 'deleteSessionCheckpoints']
    const lane = async (actor, number) => {
      for (let round = 0; round < 15; round += 1) {
        const encoding = random.pick(ENCODINGS)
        await actor.call('createCheckpoint', ...argumentsOf(SESSION, `${number}-${round}`, { encoding }))
        if (random.chance(0.6)) await actor.call(random.pick(deletions), SESSION)
        await actor.call('listCheckpointInfo', SESSION)
      }
    }
    const settled = await outcomes(actors.flatMap((actor, index) => [lane(actor, index), lane(actor, index + 10)]))
    const found = failures(settled)
    // Writes acknowledged after the last deletion are kept.
    const made = await filled(actors[0], { count: 6, encodings: ENCODINGS, name: 'last' })
    const store = await storage.open(KEEP_ALL)
    found.push(...(await unreadable(store, SESSION, made)))
    return { tried: { deletions: 60 }, found }
  })
}

/** A process is stopped during a write. The others get a result, or an error with a code. */
async function stoppedWriter(context) {
  if (!context.isShared) return { skipped: 'a store in memory has one process' }
  if (process.platform === 'win32') return { skipped: 'Windows has no SIGSTOP' }
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const options = { ...KEEP_ALL, timeoutMs: 3000 }
    actors.push(await startActor(storage, { options }), await startActor(storage, { options }))
    const [victim, other] = actors
    const found = []
    const made = await filled(other, { count: 4, encodings: ENCODINGS })
    const [id] = made.keys()
    const { session } = stateOf(SESSION, 'stopped')
    const writes = [
      () => victim.call('saveSession', session),
      () => victim.call('labelCheckpoint', SESSION, id, 'victim'),
      () => victim.call('createCheckpoint', ...argumentsOf(SESSION, 'victim', { encoding: 'delta' })),
      () => victim.call('restoreCheckpoint', { sessionId: SESSION, checkpointId: id, validateChecksum: true }),
    ]
    let stops = 0
    let refused = 0
    const state = { isOver: false }
    const writing = (async () => {
      while (!state.isOver)
        await Promise.allSettled(random.chance(0.5) ? writes.map((write) => write()) : [random.pick(writes)()])
    })()
    for (; stops < 12 && refused === 0 && found.length === 0; stops += 1) {
      await sleep(random.between(0, 20))
      victim.kill('SIGSTOP')
      const settled = await outcomes([
        other.call('saveSession', { ...session, name: 'other' }),
        other.call('labelCheckpoint', SESSION, id, 'other'),
        other.call('setRetention', SESSION, { keepLast: 1000 }),
        other.call('restoreCheckpoint', { sessionId: SESSION, checkpointId: id, validateChecksum: true }),
        other.call('createCheckpoint', ...argumentsOf(SESSION, `other-${stops}`, { encoding: 'delta' })),
        other.call('expireSessions', 1),
        other.call('listCheckpoints', SESSION),
      ])
      for (const { status, reason } of settled) {
        if (status === 'fulfilled') continue
        refused += 1
        if (reason.code === 'HANG' || !reason.code) found.push(`beside a stopped process, ${told(reason)}`)
        else if (!isTimeout(reason)) found.push(`beside a stopped process, a call failed with ${told(reason)}`)
      }
      if (refused === 0 && random.chance(0.3)) found.push(...(await closeBesideStopped(storage, options)))
      victim.kill('SIGCONT')
    }
    state.isOver = true
    await Promise.race([writing, sleep(10_000, undefined, { ref: false })])
    // After it resumes, all calls succeed again.
    const after = await outcomes([
      other.call('saveSession', session),
      other.call('labelCheckpoint', SESSION, id, 'after'),
    ])
    if (found.length === 0) found.push(...failures(after).map((text) => `after SIGCONT, ${text}`))
    if (found.length === 0) found.push(...(await judged(storage, made)))
    return { tried: { stops, refused }, found }
  })
}

/** Two processes convert a session back and forth, and one of them is stopped for longer than the timeout of some locks. */
async function stoppedConversion(context) {
  if (!context.isShared) return { skipped: 'a store in memory has one process' }
  if (process.platform === 'win32') return { skipped: 'Windows has no SIGSTOP' }
  const { random } = context
  return onNewLocation(context, async (storage, actors) => {
    const options = { ...KEEP_ALL, durability: random.pick(['full', 'relaxed']) }
    for (let count = 0; count < 2; count += 1) actors.push(await startActor(storage, { options }))
    const made = await filled(actors[0], { count: 12, encodings: ENCODINGS })
    const found = []
    const state = { isOver: false, conversions: 0 }
    const converting = actors.map(async (actor) => {
      while (!state.isOver) {
        const [outcome] = await outcomes([actor.call('convert', SESSION, random.pick(ENCODINGS), {})])
        state.conversions += 1
        if (outcome.status === 'rejected' && !isTimeout(outcome.reason)) found.push(...failures([outcome]))
      }
    })
    const stops = 12
    for (let stop = 0; stop < stops; stop += 1) {
      await sleep(random.between(5, 60))
      const actor = random.pick(actors)
      actor.kill('SIGSTOP')
      await sleep(random.between(20, 250))
      actor.kill('SIGCONT')
    }
    state.isOver = true
    await Promise.all(converting)
    found.push(...(await judged(storage, made)))
    return { tried: { stops, conversions: state.conversions }, found }
  })
}

async function closeBesideStopped(storage, options) {
  const third = await startActor(storage, { options, isLocal: false })
  try {
    return failures(await outcomes([third.call('close')]))
  } finally {
    await third.end()
  }
}

/** Whether a call gave up because another process holds a lock. */
export const isTimeout = ({ code, causeCode, cause }) =>
  ['WAYMARK_BUSY', 'WAYMARK_LOCKED', 'WAYMARK_TIMEOUT', 'WAYMARK_OUTCOME_UNKNOWN'].includes(code) ||
  (code === 'WAYMARK_IO' && /BUSY|LOCKED|TIMEDOUT|TIMEOUT|57014|55P03/i.test(String(causeCode ?? cause)))

export const PHASES = {
  'abort-convert': { repeats: 4, what: 'convert aborted half-way, then to another encoding', round: abortedConversion },
  'convert-two': {
    repeats: 4,
    what: 'two stores convert to delta at once',
    round: (context) => conversionsAtOnce(context, ['delta', 'delta']),
  },
  'convert-three': {
    repeats: 1,
    what: 'three stores convert to three encodings at once',
    round: (context) => conversionsAtOnce(context, ['delta', 'zstd', 'gzip']),
  },
  'diverged-copy': { repeats: 2, what: 'copyTo onto a target that has diverged', round: divergedCopy },
  'copy-closed': { what: 'the files copied after close()', round: copiedAfterClose },
  turns: { repeats: 3, what: 'two stores take turns', round: (context) => turns(context) },
  'fast-turns': { repeats: 3, what: 'two stores take turns without a pause', round: fastTurns },
  'skewed-turns': { what: 'two stores take turns, clocks two seconds apart', round: skewedTurns },
  labels: { repeats: 3, what: 'labels given while others are given', round: labelsAtOnce },
  marks: { repeats: 4, what: 'labels and pins given beside retention', round: marksBesideRetention },
  'unique-labels': { what: 'a unique label asked for by three stores', round: uniqueLabels },
  expiry: { repeats: 3, what: 'sessions taken up again while others expire', round: expiries },
  refused: { what: 'creates refused by ifParent', round: refusedCreates },
  deletions: { repeats: 4, what: 'checkpoints made while their session is deleted', round: deletionsAtOnce },
  'stopped-convert': { repeats: 2, what: 'SIGSTOP inside a conversion beside another', round: stoppedConversion },
  stopped: { what: 'SIGSTOP inside a write', round: stoppedWriter },
}
