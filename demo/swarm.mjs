// One process of the demonstration: a swarm of simulated agents. Reports to its parent in lines of JSON.
//
//   node swarm.mjs start|resume <directory>

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

import { CheckpointStore } from '../index.js'
import { newAgents, newResult, newSession } from './world.mjs'

const CHECKPOINT_EVERY_MS = 250
const SESSION_ID = 'demo'

const [mode, base] = process.argv.slice(2)
const report = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)

const store = new CheckpointStore(base)
await store.initialize()
const session = mode === 'resume' ? await restoredSession() : newSession(SESSION_ID)
const agents = newAgents()
const context = { goal: 'Rewrite the service without stopping it' }
const tasks = Object.values(session.taskTree)
let isDone = false

const checkpointing = checkpointWhile(() => !isDone)
await Promise.all(Object.values(agents).map(work))
isDone = true
await checkpointing
session.status = 'completed'
await checkpoint('milestone')
await store.close()

/** The session of the killed process, restored from its last checkpoint. */
async function restoredSession() {
  const { id } = await store.getLatestCheckpoint(SESSION_ID)
  const started = performance.now()
  const result = await store.restoreCheckpoint({
    checkpointId: id,
    validateChecksum: true,
    resetFailedTasks: true,
    resetInProgressTasks: true,
    includeState: true,
  })
  const tookMs = performance.now() - started
  if (!result.success) throw new Error(result.error)
  const { session: restored, taskTree } = result.state
  const completed = Object.values(taskTree).filter((task) => task.status === 'completed').length
  report({ kind: 'restored', id, tookMs, completed, reset: result.warnings.length, total: result.restoredTasks })
  return { ...restored, taskTree }
}

async function work(agent) {
  for (let task = nextTask(agent); task; task = nextTask(agent)) {
    await sleep(80 + Math.random() * 400)
    agent.completedTasks += 1
    agent.lastActivityAt = Date.now()
    Object.assign(task, { status: 'completed', completedAt: Date.now(), result: newResult(task) })
    agent.state = 'idle'
  }
}

function nextTask(agent) {
  const task = tasks.find((candidate) => candidate.status === 'pending')
  if (task) {
    agent.state = 'running'
    agent.currentTaskId = task.id
    Object.assign(task, { status: 'in_progress', assignedAgentId: agent.id, startedAt: Date.now() })
  }
  reportProgress()
  return task
}

async function checkpointWhile(isRunning) {
  while (isRunning()) {
    await checkpoint('auto')
    await sleep(CHECKPOINT_EVERY_MS)
  }
}

async function checkpoint(trigger) {
  const completed = count('completed')
  const started = performance.now()
  const promise = store.createCheckpoint(session, agents, context, { trigger, includeContext: true, compress: false })
  const heldMs = performance.now() - started
  const result = await promise
  if (!result.success) throw new Error(result.error)
  session.lastCheckpointId = result.checkpointId
  session.checkpointIds.push(result.checkpointId)
  const tookMs = performance.now() - started
  report({ kind: 'checkpoint', id: result.checkpointId, completed, tookMs, heldMs, sizeBytes: result.sizeBytes })
}

function count(status) {
  return tasks.filter((task) => task.status === status).length
}

function reportProgress() {
  const busy = Object.values(agents).map((agent) => (agent.state === 'running' ? agent.currentTaskId : null))
  report({
    kind: 'progress',
    total: tasks.length,
    completed: count('completed'),
    inProgress: count('in_progress'),
    busy,
  })
}
