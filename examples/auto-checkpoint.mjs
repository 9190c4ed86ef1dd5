// The loop of an agent with automatic checkpoints: after each tool call, at every fifth iteration, and on errors.
//
//   node examples/auto-checkpoint.mjs

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { CheckpointPolicy, CheckpointStore } from '../index.js'

const { afterToolCall, anyOf, everyIterations, onError } = CheckpointPolicy
const directory = mkdtempSync(join(tmpdir(), 'waymark-example-'))
const store = new CheckpointStore(directory)
await store.initialize()

// Yours will have all members of SwarmSession.
const session = { id: 'nightly', name: 'Nightly', taskTree: {}, lastCheckpointId: null, checkpointIds: [] }
let isStateLocked = false

const auto = store.autoCheckpoint({
  sessionId: 'nightly',
  policy: anyOf(afterToolCall(), everyIterations(5), onError()),
  capture() {
    if (isStateLocked) throw new Error('the state is locked')
    return { session, contextStore: { steps: Object.keys(session.taskTree) } }
  },
  onError: (error) => console.log(`not taken: ${error.message} (${error.code})`),
})

async function notify(event, iteration) {
  const made = await auto.notify(event, iteration)
  if (made) console.log(`checkpoint ${auto.taken} at iteration ${iteration}, because of: ${event}`)
}

for (let iteration = 1; iteration <= 6; iteration += 1) {
  session.taskTree[`step-${iteration}`] = { status: 'completed' }
  await notify('model_response', iteration)
  if (iteration === 2) await notify('tool_call', iteration) // prints: checkpoint 1 at iteration 2, because of: tool_call
  await notify('iteration', iteration) // prints: checkpoint 2 at iteration 5, because of: iteration
}
await notify('error', 6) // prints: checkpoint 3 at iteration 6, because of: error

isStateLocked = true
await notify('tool_call', 7) // prints: not taken: capture() failed: the state is locked (WAYMARK_INVALID_ARGUMENT)
isStateLocked = false

session.taskTree['step-7'] = { status: 'completed' }
await auto.stop()
const { contextStore } = await store.getLatestCheckpoint('nightly')
console.log(`checkpoint ${auto.taken} at the end, with ${contextStore.steps.length} steps`)
// prints: checkpoint 4 at the end, with 7 steps

await store.close()
rmSync(directory, { recursive: true })
