// Random sequences of all public methods, compared with the model.
//
//   npm run test:model -- [--count 5000] [--seed 1] [--backend files,sqlite,memory]
//
// Sequence n of a run has the seed `seed + n`; with `--backend postgres`, WAYMARK_TEST_DATABASE_URL names the server.

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { backends as allBackends } from '../support/stores.mjs'
import { Mismatch, makeSequence, publicMembers, runSequence } from './sequence.mjs'
import { report, shrink } from './shrink.mjs'

/** This many sequences use every method almost certainly. */
const ENOUGH_FOR_ALL_METHODS = 200

/**
 * Runs sequences of consecutive seeds, two at once; throws with a report of the first that fails, shrunk. With `isComplete`, it
 * also throws if a public method was never called.
 */
export async function runSequences({
  backends,
  count,
  seed,
  setting = { backends: allBackends },
  isComplete = false,
  onDone = () => {},
}) {
  const used = new Set()
  let next = 0
  let failure
  const worker = async () => {
    while (next < count && !failure) {
      const at = next
      next += 1
      const sequence = makeSequence(seed + at, backends[at % backends.length])
      try {
        const result = await runSequence(sequence, setting)
        for (const member of result.used) used.add(member)
        onDone(at + 1, result)
      } catch (error) {
        failure ??= { sequence, error }
      }
    }
  }
  await Promise.all([worker(), worker()])
  if (failure) {
    const { sequence, error } = failure
    if (!(error instanceof Mismatch)) throw error
    const shortest = await shrink(sequence, error, setting)
    throw Object.assign(new Error(report(shortest, sequence), { cause: error }), { shortest })
  }
  const missing = isComplete ? publicMembers().filter((member) => !used.has(member)) : []
  if (missing.length > 0) {
    throw new Error(`No sequence uses ${missing.join(', ')}: add an operation to __test__/model/operations.mjs`)
  }
}

async function main() {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '5000' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
      backend: { type: 'string', default: 'files,sqlite,memory' },
    },
  })
  const [count, seed] = [Number(values.count), Number(values.seed)]
  const backends = values.backend.split(',')
  console.log(`${count} sequences on ${backends.join(', ')}, seeds ${seed} to ${seed + count - 1}`)
  const began = performance.now()
  let calls = 0
  const onDone = (done, result) => {
    calls += result.calls
    if (done % 100 === 0)
      console.log(`${done} done, ${calls} calls, ${Math.round((performance.now() - began) / 1000)} s`)
  }
  try {
    await runSequences({ backends, count, seed, onDone, isComplete: count >= ENOUGH_FOR_ALL_METHODS })
    console.log(`${count} sequences, ${calls} calls: every answer as the model says`)
  } catch (error) {
    console.error(error.shortest ? error.message : error)
    process.exitCode = 1
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
