// Which test files there are, and how many of them run at once.

import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** The tests of PostgreSQL itself: they need a server, which `npm run test:postgres` starts. */
export const POSTGRES_TESTS = join('__test__', 'backends', 'postgres')

/** The test files below a folder, without those that need a server unless it is theirs. */
export const testsIn = (folder) =>
  readdirSync(join(ROOT, folder), { recursive: true })
    .filter((name) => name.endsWith('.test.mjs'))
    .map((name) => join(folder, name))
    .filter((path) => folder === POSTGRES_TESTS || !path.startsWith(POSTGRES_TESTS))
    .toSorted()

/** Most of the time, tests wait for the disk and for other processes: on few cores, run more files than Node.js would. */
export const CONCURRENCY = `--test-concurrency=${Math.max(3, availableParallelism())}`
