// A process that uses stores at random: see users.mjs.
//
//   node worker.mjs '{"name", "seed", "location", "other", "options", "logFile", "directory", "endAt", "actions"}'

import { openSync } from 'node:fs'

import { plainError } from './calls.mjs'
import { randomFrom } from './random.mjs'
import { User, openStores } from './users.mjs'

const { name, seed, location, other, options, logFile, directory, endAt, actions } = JSON.parse(process.argv[2])
const random = randomFrom(seed)
const log = openSync(logFile, 'a')

try {
  // JSON has no Infinity.
  const { stores, others } = await openStores(
    location,
    other,
    { ...options, maxCheckpointsPerSession: Infinity },
    random,
  )
  const user = new User({ name, seed: random.fork(), stores, others, log, directory, actions })
  setInterval(() => {
    // A hanging call would keep this process alive.
    if (!user.tick()) process.exit(3)
  }, 1000).unref()
  await user.run(endAt)
  for (const store of [...stores, ...others]) await user.note('close', {}, () => store.close())
  user.write({ hasFinished: true })
  process.exit(0)
} catch (error) {
  const { code, message } = plainError(error)
  new User({ name, seed, log }).addFinding(`the process failed with ${code}: ${message} ${error.stack}`)
  process.exit(1)
}
