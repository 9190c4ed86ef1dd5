// Agents and their states.

import assert from 'node:assert/strict'

/** The members that a checkpoint adds to the state. */
const OWN_MEMBERS =
  'id sessionId agentId timestamp expiresAt version sizeBytes messageCount toolCallCount integrity'.split(' ')

/** A state with a value for every known member and some unknown ones. */
export function makeState(overrides = {}) {
  return {
    iteration: 7,
    status: 'in_progress',
    statusReason: 'the parser "half" works, →',
    label: 'before the printer',
    tokensUsed: 12_345,
    costEstimate: 0.0371,
    messages: [
      { role: 'user', content: 'Write a parser', at: 1_700_000_000_000 },
      { role: 'assistant', content: [{ type: 'text', text: 'Yes' }], usage: { input: 3, output: 1 } },
      { role: 'tool', content: null, nested: { deep: [[], {}, [1, [2]]] } },
    ],
    toolCalls: [
      { toolName: 'read', arguments: { path: 'a.ts' }, result: 'text', success: true, durationMs: 3 },
      { toolName: 'write', arguments: ['b.ts', 1], success: false },
    ],
    pendingToolCalls: [{ toolName: 'run', arguments: {} }, 'or anything'],
    partialResults: [1, 'two', { three: 3 }],
    resumeHint: 'run the tests first',
    metadata: { team: 'blue', messages: ['not the messages'] },
    mine: { lane: 'fast' },
    '': 'an empty name',
    ...overrides,
  }
}

/** Saves a state; throws if that fails. */
export async function saved(agent, state, options = undefined) {
  const result = await agent.save(state, options)
  assert.equal(result.success, true, result.error)
  return result
}

/** Saves states in sequence; resolves to the ids of their checkpoints in that order. */
export async function savedAll(agent, states) {
  const ids = []
  for (const state of states) ids.push((await saved(agent, state)).checkpointId)
  return ids
}

/** A checkpoint without the members added to the state. */
export function stateIn(checkpoint) {
  return Object.fromEntries(Object.entries(checkpoint).filter(([name]) => !OWN_MEMBERS.includes(name)))
}

export const idsIn = (page) => page.checkpoints.map(({ id }) => id)
