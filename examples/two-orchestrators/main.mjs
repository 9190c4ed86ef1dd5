// Two orchestrators share one store. One is killed during a session; the other takes over and finishes all sessions.
//
//   node examples/two-orchestrators/main.mjs            on files
//   node examples/two-orchestrators/main.mjs postgres   on a PostgreSQL server that it starts, or on that of DATABASE_URL

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { CheckpointStore } from '../../index.js'

const SESSIONS = 6
const TASKS = 5

const target = process.argv[2] === 'postgres' ? await database() : directory()
try {
  await show(target.location)
} finally {
  await target.remove()
}

async function show(location) {
  const store = new CheckpointStore(location)
  await store.initialize()
  for (let number = 1; number <= SESSIONS; number += 1) {
    const session = newSession(`session-${number}`)
    for (const write of [store.saveSession(session), store.createCheckpoint(session, { trigger: 'manual' })]) {
      assert.ok((await write).success, (await write).error)
    }
  }

  // Ada is killed during her first session and cannot release her lease.
  let begun
  const ada = start(location, 'ada', (line) => {
    if (line.startsWith('ada did') && line.endsWith('/task-2')) {
      begun = line.split(' ').at(-1).split('/')[0]
      ada.child.kill('SIGKILL')
    }
  })
  const bob = start(location, 'bob')
  await ada.ended
  console.log(`ada is killed; ${begun} is hers for another second`)
  await bob.ended

  const results = []
  for (const { id } of await store.sessionsInfo()) {
    for (const task of Object.keys(newSession(id).taskTree)) {
      results.push({ id, ...(await store.loadTaskResult(id, task)) })
    }
  }
  const workers = new Set(results.filter(({ id }) => id === begun).map(({ by }) => by))
  const infos = await store.sessionsInfo()
  const completed = infos.filter(({ status, lease }) => status === 'completed' && !lease)
  console.log(`the session that ${[...workers].join(' and ')} did is complete`)
  // prints: the session that ada and bob did is complete
  console.log(`${completed.length} of ${SESSIONS} sessions are complete, with ${results.length} results`)
  // prints: 6 of 6 sessions are complete, with 30 results
  await store.close()
}

/** Starts an orchestrator in a process of its own and forwards its output. */
function start(location, name, onLine = () => {}) {
  const path = fileURLToPath(new URL('orchestrator.mjs', import.meta.url))
  const child = spawn(process.execPath, [path, location, name], { stdio: ['ignore', 'pipe', 'inherit'] })
  createInterface({ input: child.stdout }).on('line', (line) => {
    console.log(line)
    onLine(line)
  })
  const ended = new Promise((resolve) => {
    child.once('close', resolve)
  })
  return { child, ended }
}

/** The members of a session that this example needs. */
function newSession(id) {
  const tasks = Array.from({ length: TASKS }, (_, index) => [
    `task-${index + 1}`,
    { id: `task-${index + 1}`, status: 'pending' },
  ])
  return { id, status: 'active', taskTree: Object.fromEntries(tasks), checkpointIds: [] }
}

function directory() {
  const location = mkdtempSync(join(tmpdir(), 'waymark-example-'))
  return { location, remove: () => rmSync(location, { recursive: true }) }
}

async function database() {
  const schema = `example_${process.pid}`
  const at = (url) => {
    const location = new URL(url)
    location.searchParams.set('schema', schema)
    return location.href
  }
  if (process.env.DATABASE_URL) return { location: at(process.env.DATABASE_URL), remove() {} }
  const { startPostgres } = await import('../../scripts/postgres.mjs')
  const server = await startPostgres()
  return { location: at(server.url), remove: () => server.stop() }
}
