// Random load: processes call all methods on one location, some are killed or stopped; then the judgement.

import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { judgeStorm } from './storm-judge.mjs'
import { AGENT_LIMIT, ANSWER_LIMIT_S, LIMITS, User, clock } from './users.mjs'

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url))
const PROCESSES = 3
/** A process that has not ended this long after its time hangs. */
const GRACE_MS = (ANSWER_LIMIT_S + 10) * 1000

/** One round on two new locations. */
export async function stormRound(context) {
  const { random, seconds, actions } = context
  const [storage, other] = [context.newLocation(), context.newLocation()]
  const options = {
    maxCheckpointsPerSession: Infinity,
    maxCheckpointsPerAgent: AGENT_LIMIT,
    durability: random.pick(['full', 'full', 'relaxed']),
    encoding: random.pick(['json', 'delta']),
  }
  const logs = join(storage.directory, 'logs')
  mkdirSync(logs)
  try {
    const first = await storage.open(options)
    await other.open(options)
    await first.setRetention('limited-0', { keepLast: LIMITS[0] })
    const endAt = clock() + seconds * 1_000_000
    const share = { storage, other, options, logs, endAt, random, actions, directory: storage.directory }
    const chaos = await (storage.isShared ? processesAtOnce(share) : usersAtOnce(share))
    const entries = readLogs(logs)
    const judgement = await judgeStorm({ storage, other, options, entries, stops: chaos.counts.stops })
    return { tried: { ...judgement.tried, ...chaos.counts }, found: [...chaos.findings, ...judgement.found] }
  } finally {
    await Promise.all([storage.remove(), other.remove()])
  }
}

/** Skips incomplete lines of killed processes. */
function readLogs(directory) {
  const entries = []
  for (const name of readdirSync(directory).toSorted()) {
    for (const line of readFileSync(join(directory, name), 'utf8').split('\n')) {
      if (!line.endsWith('}')) continue
      entries.push(JSON.parse(line))
    }
  }
  return entries
}

/** Two users of one store object. */
async function usersAtOnce({ storage, other, options, logs, endAt, random, actions, directory }) {
  const stores = [await storage.open(options)]
  const others = [await other.open(options)]
  const log = openSync(join(logs, 'users'), 'a')
  // A store in memory is so fast that the judgement would take longer than the storm.
  const share = { stores, others, log, directory, actions, pause: 0.3 }
  const users = ['a', 'b'].map((name) => new User({ name, seed: random.fork(), ...share }))
  await Promise.all(users.map((user) => user.run(endAt)))
  await stores[0].initialize()
  closeSync(log)
  return { counts: { users: users.length, stops: 0 }, findings: [] }
}

async function processesAtOnce(share) {
  const { random, endAt } = share
  const counts = { processes: 0, kills: 0, stops: 0 }
  const findings = []
  const start = () => {
    counts.processes += 1
    return startWorker(share, `p${counts.processes}`)
  }
  const workers = Array.from({ length: PROCESSES }, start)
  const canStop = process.platform !== 'win32'
  while (clock() < endAt - 500_000) {
    await sleep(random.between(50, 1200))
    const index = random.below(workers.length)
    const worker = workers[index]
    const event = random.weighted({
      kill: 3,
      stop: canStop ? 3 : 0,
      longStop: canStop ? 1 : 0,
      stopAndKill: canStop ? 1 : 0,
    })
    if (event === 'stop' || event === 'longStop') {
      counts.stops += 1
      worker.child.kill('SIGSTOP')
      const milliseconds = event === 'stop' ? random.between(5, 400) : random.between(1000, 3000)
      setTimeout(() => worker.child.kill('SIGCONT'), milliseconds)
      if (random.chance(0.5)) await sleep(milliseconds)
      continue
    }
    if (event === 'stopAndKill') {
      counts.stops += 1
      worker.child.kill('SIGSTOP')
      await sleep(random.between(100, 1500))
    }
    counts.kills += 1
    worker.child.kill('SIGKILL')
    await worker.ended
    workers[index] = start()
  }
  const wait = Math.max(0, (endAt - clock()) / 1000) + GRACE_MS
  await Promise.all(
    workers.map(async ({ name, child, ended }) => {
      if (canStop) child.kill('SIGCONT')
      const outcome = await Promise.race([ended, sleep(wait, 'late', { ref: false })])
      if (outcome === 'late') findings.push(`the process ${name} did not end`)
      // A hang was logged by the process itself.
      else if (outcome.code !== 0 && outcome.code !== 3)
        findings.push(`the process ${name} ended with ${JSON.stringify(outcome)}`)
      child.kill('SIGKILL')
      await ended
    }),
  )
  return { counts, findings }
}

function startWorker({ storage, other, options, logs, endAt, random, actions, directory }, name) {
  const task = {
    name,
    seed: random.fork(),
    location: storage.location,
    other: other.location,
    options,
    logFile: join(logs, name),
    directory,
    endAt,
    actions,
  }
  const child = spawn(process.execPath, [WORKER, JSON.stringify(task)], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  return { name, child, ended }
}
