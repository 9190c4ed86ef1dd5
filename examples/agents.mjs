// An agent that saves its state after each tool call, crashes during one, and continues where it was.
//
//   node examples/agents.mjs

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { CheckpointStore } from '../index.js'

const directory = mkdtempSync(join(tmpdir(), 'waymark-example-'))

// Simulates a model that decides what to do next.
const PLAN = ['read parser.c', 'write parser.rs', 'run the tests']
const callsAfter = (done) =>
  PLAN.slice(done, done + 1).map((command) => ({ toolName: 'shell', arguments: { command } }))

/** The work of one process: continues from the newest undamaged checkpoint, or begins. */
async function work(useTool) {
  const store = new CheckpointStore(directory)
  await store.initialize()
  const agent = store.agent('nightly', 'porter')
  const found = await agent.latest()
  console.log(found ? `continues after step ${found.iteration}: ${found.resumeHint}` : 'begins')
  if (found) console.log(`${found.messageCount} messages, ${found.toolCallCount} tool call, bytes: ${found.context}`)

  const task = { role: 'user', content: 'Port the parser to Rust' }
  const state = found ?? { iteration: 0, messages: [task], toolCalls: [], pendingToolCalls: callsAfter(0) }
  while (state.pendingToolCalls.length > 0) {
    const [call] = state.pendingToolCalls
    const result = useTool(call.arguments.command)
    state.iteration += 1
    state.toolCalls.push({ ...call, result, success: true })
    state.messages.push({ role: 'tool', content: result })
    state.pendingToolCalls = callsAfter(state.iteration)
    state.status = state.pendingToolCalls.length > 0 ? 'in_progress' : 'completed'
    state.resumeHint = 'the next call may be half done'
    // Bytes are restored exactly, for example the cache of a model.
    state.context = Uint8Array.from(state.toolCalls, (_, index) => 7 * (index + 1))
    const saved = await agent.save(state)
    if (!saved.success) throw new Error(saved.error)
    console.log(`step ${state.iteration}: ${result}`)
  }

  const { checkpoints, total } = await agent.info({ order: 'iteration' })
  console.log(
    `${total} checkpoints: ${checkpoints.map(({ iteration, status }) => `${iteration} ${status}`).join(', ')}`,
  )
  console.log(`${await agent.prune(1)} pruned; agents with checkpoints: ${await store.listAgents('nightly')}`)
  await store.close()
}

const use = (command) => `did «${command}»`
const crash = (command) => {
  if (command.startsWith('write')) throw new Error('the power is gone')
  return use(command)
}

await work(crash).catch(({ message }) => console.log(message))
// prints: begins
// prints: step 1: did «read parser.c»
// prints: the power is gone

await work(use)
// prints: continues after step 1: the next call may be half done
// prints: 2 messages, 1 tool call, bytes: 7
// prints: step 2: did «write parser.rs»
// prints: step 3: did «run the tests»
// prints: 3 checkpoints: 1 in_progress, 2 in_progress, 3 completed
// prints: 2 pruned; agents with checkpoints: porter

rmSync(directory, { recursive: true })
