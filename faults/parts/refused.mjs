// Makes every system call of every writing method fail in turn: in Rust on a disk in memory, and in the real
// process with strace.

import { execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { ADDON, CheckpointStore, ROOT, listed } from '../harness.mjs'
import { canInject, skipped } from '../machine.mjs'

const METHODS = {
  createSessionDirectory: `store.createSessionDirectory('other').then(() => ({ success: true }), (error) => ({ success: false, code: error.code }))`,
  saveSession: `store.saveSession(session)`,
  saveTaskTree: `store.saveTaskTree('s', session.taskTree)`,
  saveTaskResult: `store.saveTaskResult('s', 't', { version: 'new' })`,
  createCheckpoint: `store.createCheckpoint(session, { trigger: 'auto' })`,
  'createCheckpoint, gzip': `store.createCheckpoint(session, { trigger: 'auto', compress: true })`,
  restoreCheckpoint: `store.restoreCheckpoint({ checkpointId: newest, sessionId: 's', validateChecksum: true })`,
  recoverSession: `store.recoverSession('s')`,
  deleteCheckpoint: `store.deleteCheckpoint('s', newest)`,
  deleteSession: `store.deleteSession('s')`,
}

/** The system calls of the methods, and the errors to inject. */
const REASONS = {
  openat: ['EMFILE', 'EACCES'],
  mkdirat: ['ENOSPC'],
  write: ['ENOSPC', 'EDQUOT'],
  fsync: ['EIO'],
  renameat: ['EIO'],
  renameat2: ['EIO'],
  unlinkat: ['EIO'],
  getdents64: ['EIO'],
  newfstatat: ['EIO'],
  flock: ['EIO'],
}

const newState = (version) => ({
  id: 's',
  name: 'n',
  checkpointIds: [],
  taskTree: { task: { id: 'task', version } },
  metadata: { version },
})

export async function run() {
  const rows = [inTheModel('refused_calls', 'refused calls, every call of every method, in a model of a disk')]
  rows.push(inTheModel('power_cut', 'power cuts, every step of every method, in a model of a disk'))
  const refusal = canInject()
  rows.push(refusal ? skipped('refused calls of the real process', refusal) : await onTheProcess())
  return rows
}

function inTheModel(test, what) {
  const args = ['test', '--release', '--no-default-features', '--test', test, '--', '--nocapture']
  try {
    const printed = execFileSync('cargo', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    return { what, tried: printed.match(/campaign: (.*), 0 lost/)[1], found: [] }
  } catch (error) {
    return { what, tried: 'failed', found: [String(error.stdout).slice(-2000)] }
  }
}

async function onTheProcess() {
  const found = []
  let refused = 0
  const template = mkdtempSync(join(tmpdir(), 'waymark-refused-'))
  const newest = await prepare(template)
  for (const method of Object.keys(METHODS)) {
    const { calls } = await attempt(template, method, newest, null)
    const waiting = calls.flatMap(({ name, count }) => REASONS[name].map((reason) => ({ name, count, reason })))
    for (const injection of waiting) {
      const outcome = await attempt(template, method, newest, injection)
      refused += outcome.wasInjected ? 1 : 0
      const label = `${method}, ${injection.name} ${injection.count} ${injection.reason}`
      found.push(...outcome.findings.map((finding) => `${label}: ${finding}`))
    }
  }
  rmSync(template, { recursive: true })
  if (refused < 100) found.push(`only ${refused} calls were refused`)
  return { what: 'refused calls of the real process (strace)', tried: `${refused} calls`, found }
}

/** A session with everything in it, of version `old`, and one checkpoint of version `new`. */
async function prepare(base) {
  const store = new CheckpointStore(base, 1)
  await store.initialize()
  await store.createSessionDirectory('s')
  await store.saveSession(newState('old'))
  await store.saveTaskTree('s', newState('old').taskTree)
  await store.saveTaskResult('s', 't', { version: 'old' })
  const { checkpointId } = await store.createCheckpoint(newState('new'), { trigger: 'auto' })
  await store.close()
  return checkpointId
}

/** Runs a method in a separate process with one failing call; without an injection, records its calls. */
async function attempt(template, method, newest, injection) {
  const base = mkdtempSync(join(tmpdir(), 'waymark-call-'))
  cpSync(template, base, { recursive: true })
  const log = `${base}.log`
  const child = spawn(process.execPath, ['--eval', program(base, method, newest)], { stdio: ['pipe', 'pipe', 'pipe'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  await lines.next()
  const tracer = await trace(child.pid, log, injection)
  child.stdin.write('go\n')
  const { value } = await lines.next()
  child.stdin.end()
  await new Promise((resolve) => child.once('close', resolve))
  await tracer.ended
  const traced = readFileSync(log, 'utf8')
  const answer = value ? JSON.parse(value) : { success: false, code: 'no answer' }
  const findings = injection ? await judge(base, method, newest, answer) : []
  rmSync(base, { recursive: true })
  rmSync(log)
  return { findings, calls: callsBelow(traced, base), wasInjected: traced.includes('(INJECTED)') }
}

function program(base, method, newest) {
  return `
    const { CheckpointStore } = require(${JSON.stringify(ADDON)})
    const store = new CheckpointStore(${JSON.stringify(base)}, 1)
    const session = ${JSON.stringify(newState('new'))}
    const newest = ${JSON.stringify(newest)}
    store.initialize().then(() => {
      console.log('ready')
      process.stdin.once('data', async () => console.log(JSON.stringify(await ${METHODS[method]})))
    })
  `
}

/** Attaches to the worker threads only, so that no call of Node itself fails. */
async function trace(pid, log, injection) {
  const threads = readdirSync(`/proc/${pid}/task`).filter((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').startsWith('tokio'),
  )
  const refusal = injection ? ['-e', `inject=${injection.name}:error=${injection.reason}:when=${injection.count}`] : []
  const args = ['-qq', '-y', '-o', log, '-e', `trace=${Object.keys(REASONS).join(',')}`, ...refusal]
  const tracer = spawn('strace', [...args, ...threads.flatMap((thread) => ['-p', thread])], { stdio: 'ignore' })
  const isTraced = () =>
    threads.every((thread) => !/TracerPid:\t0\n/.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')))
  while (!isTraced()) await sleep(1)
  return { ended: new Promise((resolve) => tracer.once('close', resolve)) }
}

/** The calls on paths below the base: name, and ordinal among the calls of that name. */
function callsBelow(traced, base) {
  const counts = {}
  const calls = []
  for (const line of traced.split('\n')) {
    const name = line.match(/^(?:\d+ +)?(\w+)\(/)?.[1]
    if (!name) continue
    counts[name] = (counts[name] ?? 0) + 1
    if (line.includes(base)) calls.push({ name, count: counts[name] })
  }
  return calls
}

async function judge(base, method, newest, answer) {
  const findings = []
  if (!answer.success && !/^WAYMARK_(IO|OUTCOME_UNKNOWN)$/.test(answer.code))
    findings.push(`answered ${answer.code}: ${answer.error}`)
  const isOver = answer.success || answer.code === 'WAYMARK_OUTCOME_UNKNOWN'
  const temporaries = ['s', 's/checkpoints', 's/results']
    .flatMap((part) => listed(join(base, part)))
    .filter((name) => name.endsWith('.tmp'))
  if (temporaries.length > 0) findings.push(`left behind: ${temporaries}`)
  const store = new CheckpointStore(base, 1)
  await store.initialize()
  const report = await store.verifySession('s')
  if (!report.whole) findings.push('the stored data are damaged')
  const isThere = async (version) =>
    [await store.loadSession('s'), await store.loadTaskTree('s'), await store.loadTaskResult('s', 't')]
      .map((value) => (value?.metadata ?? value?.task ?? value)?.version ?? 'gone')
      .join(' ') === version
  const after = {
    saveSession: 'new old old',
    saveTaskTree: 'old new old',
    saveTaskResult: 'old old new',
    restoreCheckpoint: 'new new old',
    recoverSession: 'new new old',
    deleteSession: 'gone gone gone',
  }[method]
  const isOld = await isThere('old old old')
  const isNew = after ? await isThere(after) : isOld
  const isAllowed = answer.success ? isNew : isOld || (isOver && isNew)
  if (!isAllowed) findings.push('neither the old state nor the new one is stored')
  const mayBeGone =
    isOver && ['deleteCheckpoint', 'deleteSession', 'createCheckpoint', 'createCheckpoint, gzip'].includes(method)
  if (!mayBeGone && !report.checkpoints.some((checkpoint) => checkpoint.id === newest))
    findings.push('the checkpoint is missing')
  await store.close()
  return findings
}
