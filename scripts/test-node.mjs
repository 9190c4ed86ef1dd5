// Runs the tests on this Node.js: all of them, or those of some folders of `__test__/`.
//
//   node scripts/test-node.mjs [folder ...]

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

import { CONCURRENCY, ROOT, testsIn } from './test-files.mjs'

const folders = process.argv.slice(2)
const missing = folders.filter((name) => !existsSync(join(ROOT, '__test__', name)))
if (missing.length > 0) {
  console.error(`No such folder in __test__: ${missing.join(', ')}`)
  process.exit(2)
}
const files = folders.length > 0 ? folders.flatMap((name) => testsIn(join('__test__', name))) : testsIn('__test__')
const { status } = spawnSync(process.execPath, ['--test', CONCURRENCY, ...files], { cwd: ROOT, stdio: 'inherit' })
process.exitCode = status ?? 1
