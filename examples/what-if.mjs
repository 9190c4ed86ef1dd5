// Retries a failed task in a fork of its session. The original session is unchanged.
//
//   node examples/what-if.mjs

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { CheckpointStore } from '../index.js'

const directory = mkdtempSync(join(tmpdir(), 'waymark-example-'))
const store = new CheckpointStore(directory)
await store.initialize()

async function checkpoint(session, label) {
  const made = await store.createCheckpoint(session, { trigger: 'milestone', label, uniqueLabel: true })
  if (!made.success) throw new Error(made.error)
  session.lastCheckpointId = made.checkpointId
}

// Yours will have all members of SwarmSession.
const parser = { prompt: 'Generate a parser', status: 'in_progress' }
const session = { id: 'nightly', taskTree: { parser }, lastCheckpointId: null, checkpointIds: [] }
await checkpoint(session, 'begun')
parser.status = 'failed'
await checkpoint(session, 'parser failed')
session.taskTree.report = { prompt: 'Say why', status: 'completed' }
await checkpoint(session, 'given up')

// Fork from the checkpoint before the failure was given up.
const failed = await store.getCheckpointByLabel('nightly', 'parser failed')
const fork = await store.forkSession({
  sessionId: 'nightly',
  checkpointId: failed.id,
  newSessionId: 'by-hand',
  resetFailedTasks: true,
})
if (!fork.success) throw new Error(fork.error)
console.log(fork.warnings.join()) // prints: Reset failed task: parser
await store.labelCheckpoint('by-hand', fork.checkpointId, 'once more')

const other = { ...(await store.loadSession('by-hand')), taskTree: await store.loadTaskTree('by-hand') }
other.taskTree.parser = { prompt: 'Write a parser by hand', status: 'completed' }
await checkpoint(other, 'parser done')

// Compare the ends of both sessions.
const ends = [session, other].map(({ id, lastCheckpointId }) => `${id}/${lastCheckpointId}`)
const { tasks } = await store.diffCheckpoints(...ends)
for (const { id, status } of tasks.changed) console.log(`${id}: ${status.from} or ${status.to}`)
// prints: parser: failed or completed
console.log(`only without the fork: ${tasks.removed.join()}`) // prints: only without the fork: report

/** Prints a checkpoint, its children, and the sessions forked from it. */
async function draw(nodes, { label, children, forks }, depth) {
  console.log(`${'  '.repeat(depth)}${label}`)
  for (const child of nodes.filter((node) => children.includes(node.id))) await draw(nodes, child, depth + 1)
  for (const name of forks) await drawSession(name, depth + 1)
}

async function drawSession(name, depth) {
  const { checkpoints } = await store.history(name)
  console.log(`${'  '.repeat(depth)}[${name}]`)
  const isRoot = ({ parent }) => !checkpoints.some(({ id }) => id === parent)
  for (const root of checkpoints.filter(isRoot)) await draw(checkpoints, root, depth + 1)
}

await drawSession('nightly', 0)
// prints: [nightly]
// prints:   begun
// prints:     parser failed
// prints:       given up
// prints:       [by-hand]
// prints:         once more
// prints:           parser done

await store.close()
rmSync(directory, { recursive: true })
