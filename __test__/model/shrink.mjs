// Shrinks a sequence that fails to a short one that fails in the same way, and writes it down as calls that can be run.

import { Mismatch, runSequence } from './sequence.mjs'

/** How often a sequence is tried that does not fail every time: with aborted work, or when two ids are of one millisecond. */
const TRIES = 8
const DEFAULT_BUDGET_MS = 90_000

/** Gives `{ sequence, error }` of the shortest sequence that was found within the time. */
export async function shrink(sequence, error, setting, budgetMs = DEFAULT_BUDGET_MS) {
  const end = performance.now() + budgetMs
  const cut = { ...sequence, operations: sequence.operations.slice(0, error.at + 1) }
  let best = (await failureOf(cut, error, setting, TRIES)) ?? { sequence, error }
  let tries = 1
  for (let again = 0; again < 2; again += 1) if (!(await failureOf(cut, error, setting, 1))) tries = TRIES

  const attempt = async (candidate) => {
    if (performance.now() > end) return false
    const found = await failureOf(candidate, error, setting, tries)
    if (found) best = found
    return found !== undefined
  }

  const finished = best.sequence.operations.map(({ name, args }) => ({ name, args: { ...args, abort: undefined } }))
  if (await attempt({ ...best.sequence, operations: finished })) tries = 1

  let isSmaller = true
  while (isSmaller && performance.now() < end) {
    isSmaller = false
    for (let size = Math.ceil(best.sequence.operations.length / 2); size >= 1; size = Math.floor(size / 2)) {
      for (let at = best.sequence.operations.length - size; at >= 0; at -= size) {
        const { operations } = best.sequence
        if (at >= operations.length) continue
        const rest = [...operations.slice(0, at), ...operations.slice(at + size)]
        isSmaller = (await attempt({ ...best.sequence, operations: rest })) || isSmaller
      }
    }
    for (const simpler of simplerThan(best.sequence)) isSmaller = (await attempt(simpler(best.sequence))) || isSmaller
  }
  return best
}

/** What an operation can do without. */
const OPTIONAL = {
  '': ['parent', 'agents', 'context', 'asMap', 'isShort', 'isUnique', 'condition', 'abort', 'bytes', 'unique', 'limit'],
  state: ['name', 'status', 'createdAt', 'expiresAt', 'metrics', 'metadata', 'extra', 'messages', 'toolCalls', 'own'],
  options: ['description', 'includeContext', 'label', 'metadata', 'encoding', 'compress', 'dryRun', 'includeState'],
  filter: ['trigger', 'label', 'sincePick', 'untilPick', 'asDate'],
}

/** Ways to make a sequence simpler, each a function of the simplest so far. */
function simplerThan(sequence) {
  const ways = []
  for (const [at, options] of sequence.options.entries()) {
    for (const name of Object.keys(options).filter((each) => options[each] !== undefined)) {
      const simpler = (now) => now.options.map((each, n) => (n === at ? { ...each, [name]: undefined } : each))
      ways.push((now) => ({ ...now, options: simpler(now) }))
    }
  }
  for (const [at, { args }] of sequence.operations.entries()) {
    const change = (changed) =>
      ways.push((now) => ({
        ...now,
        operations: now.operations.map((each, n) => (n === at ? { ...each, args: changed(each.args) } : each)),
      }))
    if (args.on !== 0) change((now) => ({ ...now, on: 0 }))
    for (const [part, names] of Object.entries(OPTIONAL)) {
      for (const name of names) {
        const holder = part === '' ? args : args[part]
        if (holder?.[name] === undefined) continue
        if (part === '') change((now) => ({ ...now, [name]: undefined }))
        else change((now) => ({ ...now, [part]: { ...now[part], [name]: undefined } }))
      }
    }
    if (Object.keys(args.state?.taskTree ?? {}).length > 0) {
      change((now) => ({ ...now, state: { ...now.state, taskTree: {} } }))
    }
    for (const group of args.groups?.keys() ?? []) {
      change((now) => ({ ...now, groups: now.groups.filter((_, n) => n !== group) }))
    }
  }
  return ways
}

/** Whether a sequence fails at the same operation. Other errors than a mismatch come from an operation made too simple. */
async function failureOf(sequence, error, setting, tries) {
  for (let left = tries; left > 0; left -= 1) {
    try {
      await runSequence(sequence, setting)
    } catch (found) {
      if (found instanceof Mismatch && kindOf(found) === kindOf(error)) return { sequence, error: found }
    }
  }
  return undefined
}

/** The state at the end is compared twice: which of the two finds it does not matter. */
const kindOf = ({ operation }) => (operation.startsWith('the state') ? 'the state' : operation)

/** A failure for people: the seed, the shortest sequence as calls, and what was wrong. */
export function report({ sequence, error }, original) {
  return [
    `A sequence on ${sequence.backend} (target: ${sequence.target}) fails. Its seed is ${sequence.seed}:`,
    `  npm run test:model -- --backend ${sequence.backend} --seed ${sequence.seed} --count 1`,
    `It had ${original.operations.length} operations; these ${sequence.operations.length} are enough:`,
    ...error.lines.map((line) => `  ${line}`),
    `${error.operation}: ${error.message}`,
  ].join('\n')
}
