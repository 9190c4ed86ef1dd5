// Runs a writer process, records its acknowledgements, and checks them.

import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { runtime } from '../scripts/runtimes.mjs'

const WRITER = fileURLToPath(new URL('writer.mjs', import.meta.url))
export const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const ADDON = join(ROOT, 'index.js')
export const { CheckpointStore } = createRequire(import.meta.url)(ADDON)

/** How many checkpoints the writer keeps. */
const LIMIT = 6

/** A history without acknowledgements, in its own directory. */
export function newHistory(kind, directory) {
  return { kind, directory, checkpoints: [], results: {}, restored: '', writes: 0, number: 0 }
}

/** Starts a writer that continues where the last one of this history was stopped. */
export async function startWriter(history, { addon = ADDON, weakened = '', pace = 'busy' } = {}) {
  history.restored = ''
  const node = history.kind === 'sqlite' ? runtime('node24') : process.execPath
  const env = { ...process.env, WAYMARK_ADDON: addon, WAYMARK_WEAKENED: weakened, NODE_NO_WARNINGS: '1' }
  const args = [WRITER, history.kind, history.directory, String(history.number), pace]
  const child = spawn(node, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let finding = ''
  child.stderr.on('data', (chunk) => (finding += chunk))
  const ended = new Promise((resolve) => child.once('close', resolve))
  const lines = createInterface({ input: child.stdout })
  let isListening = true
  await new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      if (line === 'ready') resolve()
      else if (isListening) acknowledge(history, line)
    })
    ended.then(() => reject(new Error(`The writer ended: ${finding}`)))
  })
  return {
    /** Later lines are ignored. */
    stopListening: () => (isListening = false),
    kill: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}

function acknowledge(history, line) {
  const [what, name, number] = line.split(' ')
  history.writes += 1
  history.number = Math.max(history.number, Number(number ?? 0))
  if (what === 'checkpoint') history.checkpoints.push(name)
  if (what === 'result') history.results[name] = Number(number)
  if (what === 'restore') history.restored = name
}

/** A random pause of at most this length. */
export const someTime = (milliseconds) => sleep(Math.random() * milliseconds)

/** The acknowledged data that are lost or torn, a finding each. */
export async function findings(history, pace = 'busy') {
  return history.kind === 'ours' ? findingsOfOurs(history, pace === 'calm') : findingsOfOthers(history)
}

async function findingsOfOurs(history, isCalm) {
  const found = []
  const store = new CheckpointStore(history.directory, LIMIT)
  await store.initialize()
  const report = await store.verifySession('s')
  for (const entry of [...report.checkpoints, ...report.files]) if (!entry.whole) found.push(entry.error)
  const there = new Set(report.checkpoints.map((checkpoint) => checkpoint.id))
  // Retention removes a checkpoint only when LIMIT newer ones exist.
  const newer = (id) => report.checkpoints.filter((other) => other.id > id).length
  for (const id of history.checkpoints) {
    if (!there.has(id) && newer(id) < LIMIT) found.push(`${id} was acknowledged and is missing`)
  }
  for (const [key, number] of Object.entries(history.results)) {
    const result = await store.loadTaskResult('s', `key-${key}`).catch((error) => ({ number: error.message }))
    if (!(result?.number >= number)) found.push(`key ${key}: ${number} was acknowledged, ${result?.number} is stored`)
  }
  const [session, tree] = [await store.loadSession('s').catch(String), await store.loadTaskTree('s').catch(String)]
  if (session?.metadata?.number !== tree?.task?.number) found.push('session and tree are of different checkpoints')
  // A calm writer restores its checkpoints in their order.
  if (isCalm && history.restored > (session?.lastCheckpointId ?? ''))
    found.push(`the restore of ${history.restored} is missing`)
  if (there.size > 0) {
    const recovered = await store.recoverSession('s')
    if (!recovered.success || recovered.passedOver.length > 0) found.push(`recovering: ${recovered.error}`)
  }
  await store.close()
  return found
}

async function findingsOfOthers({ kind, directory, results }) {
  const read = kind === 'sqlite' ? await sqliteReader(directory) : (path) => readFileSync(path, 'utf8')
  const found = []
  for (const [key, number] of Object.entries(results)) {
    const path = join(directory, `key-${key}.json`)
    try {
      const there = JSON.parse(read(path))
      if (there.number < number) found.push(`key ${key}: ${number} was acknowledged, ${there.number} is stored`)
    } catch (error) {
      found.push(`key ${key}: ${existsSync(path) ? 'torn' : 'gone'} (${error.message})`)
    }
  }
  return found
}

async function sqliteReader(directory) {
  const { execFileSync } = await import('node:child_process')
  const source = `
    const { DatabaseSync } = require('node:sqlite')
    const database = new DatabaseSync(${JSON.stringify(join(directory, 'store.db'))})
    console.log(JSON.stringify(Object.fromEntries(database.prepare('SELECT key, value FROM state').all().map((row) => [row.key, row.value]))))
  `
  const env = { ...process.env, NODE_NO_WARNINGS: '1' }
  const rows = JSON.parse(
    execFileSync(runtime('node24'), ['--eval', source], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }),
  )
  return (path) => rows[path]
}

/** The names in a directory; none if it does not exist. */
export function listed(directory) {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
