// States that are computed from a token, so that the judge can compute what a checkpoint must hold.

import { randomFrom } from './random.mjs'

export const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

/** Text that hardly compresses, the same for the same seed. */
function noise(length, seed) {
  const random = randomFrom(seed)
  let text = ''
  while (text.length < length) text += random.below(2_176_782_336).toString(36).padStart(6, '0')
  return text.slice(0, length)
}

const COMMON = noise(5000, 1)

const hash = (text) => {
  let value = 7
  for (const character of text) value = (Math.imul(value, 31) + character.charCodeAt(0)) >>> 0
  return value
}

/**
 * The arguments of `createCheckpoint` for a token. Most states are similar, as those of one session are; one in nine shares nothing
 * with the others, so that a delta needs a new base.
 */
export function stateOf(sessionId, token) {
  const seed = hash(token)
  const common = seed % 9 === 0 ? noise(3000, seed) : COMMON
  const session = {
    id: sessionId,
    name: token,
    status: 'active',
    checkpointIds: [],
    taskTree: { task: { id: 'task', token, common, own: noise(40, seed) } },
    metadata: { token },
  }
  return { session, agents: { agent: { id: 'agent', token } }, context: { token, own: noise(80, seed + 1) } }
}

/** The state of an agent for a token. */
export const snapshotOf = (token) => ({
  iteration: 1,
  messages: [{ role: 'user', content: `${token} ${COMMON}` }],
  metadata: { token },
})

/** How the content of a checkpoint differs from that of a token; `undefined` if it does not. */
export function contentError(checkpoint, token) {
  const { session, agents, context } = stateOf(checkpoint.sessionId, token)
  const pairs = [
    ['session', checkpoint.session?.metadata?.token, token],
    ['taskTree', checkpoint.taskTree, session.taskTree],
    ['agentStates', checkpoint.agentStates, agents],
    ['contextStore', checkpoint.contextStore, context],
  ]
  const wrong = pairs.find(([, found, expected]) => JSON.stringify(found) !== JSON.stringify(expected))
  return wrong && `its ${wrong[0]} is not what was stored`
}

/** Creates the checkpoint of a token; fails if it is not acknowledged. */
export async function created(store, sessionId, token, options = {}) {
  const result = await store.createCheckpoint(...argumentsOf(sessionId, token, options))
  if (!result.success) throw Object.assign(new Error(result.error), { code: result.code })
  return result.checkpointId
}

export function argumentsOf(sessionId, token, options = {}) {
  const { session, agents, context } = stateOf(sessionId, token)
  return [session, agents, context, { trigger: 'auto', includeContext: true, ...options }]
}
