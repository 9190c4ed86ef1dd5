// One orchestrator: acquires a session without an owner, continues where its last owner stopped, and repeats until all are
// complete.
//
//   node examples/two-orchestrators/orchestrator.mjs <location> <name>

import { setTimeout as sleep } from 'node:timers/promises'

import { CheckpointStore } from '../../index.js'

const [location, name] = process.argv.slice(2)

const store = new CheckpointStore(location)
await store.initialize()
while (!(await isAllDone())) {
  const lease = await store.acquireNext({ status: 'active', owner: name, ttlMs: 1000, waitMs: 500 })
  if (lease) await workUnder(lease)
}
await store.close()

async function isAllDone() {
  const sessions = await store.sessionsInfo()
  return sessions.every(({ status }) => status === 'completed')
}

async function workUnder(lease) {
  try {
    await work(lease)
  } catch (error) {
    // Another orchestrator has taken the session: every write of this one is rejected.
    if (!lease.isLost && error.code !== 'WAYMARK_LEASE_LOST') throw error
    console.log(`${name} lost ${lease.sessionId}`)
  } finally {
    await lease.release()
  }
}

async function work({ sessionId, signal }) {
  const { success, error, state } = await store.recoverSession(sessionId, {
    resetInProgressTasks: true,
    includeState: true,
  })
  if (!success) throw new Error(error)
  const session = { ...state.session, taskTree: state.taskTree }
  const tasks = Object.values(session.taskTree)
  const done = tasks.filter(({ status }) => status === 'completed').length
  console.log(`${name} takes ${sessionId}: ${done} of ${tasks.length} tasks are done`)
  for (const task of tasks.filter(({ status }) => status === 'pending')) {
    task.status = 'in_progress'
    await checked(store.createCheckpoint(session, { trigger: 'auto' }))
    // The agent works here. The signal stops it when the lease is lost.
    await sleep(40, undefined, { signal })
    await checked(store.saveTaskResult(sessionId, task.id, { by: name }))
    task.status = 'completed'
    await checked(store.createCheckpoint(session, { trigger: 'auto' }))
    console.log(`${name} did ${sessionId}/${task.id}`)
  }
  session.status = 'completed'
  await checked(store.saveSession(session))
  console.log(`${name} completed ${sessionId}`)
}

async function checked(write) {
  const { success, error, code } = await write
  if (!success) throw Object.assign(new Error(error), { code })
}
