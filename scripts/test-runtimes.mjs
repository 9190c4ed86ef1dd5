// Runs the suite on every supported runtime with one binary. Without names, it skips the version of Node that
// it runs on, which `npm test` covers.
//
//   node scripts/test-runtimes.mjs [name ...]

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

import { RUNTIMES, runtime } from './runtimes.mjs'
import { CONCURRENCY, ROOT, testsIn } from './test-files.mjs'

// These run only with `npm test`: the tests of the package and its documents need npm and a compiler, the long ones test the
// store, and the command is the same JavaScript on every runtime.
const ONCE = /^__test__.(?:package|model|support|cli|concurrency.mixed-campaign)\b/
const SUITE = testsIn('__test__').filter((path) => !ONCE.test(path))
const SMOKE = join('__test__', 'package', 'smoke.mjs')
const ARGUMENTS = { bun: [SMOKE], deno: ['run', '--allow-all', SMOKE] }

const own = `node${process.versions.node.split('.')[0]}`
const names = process.argv.length > 2 ? process.argv.slice(2) : RUNTIMES.filter((name) => name !== own)
const unknown = names.filter((name) => !RUNTIMES.includes(name))
if (unknown.length > 0) {
  console.error(`Unknown runtime ${unknown.join(', ')}. There are: ${RUNTIMES.join(', ')}`)
  process.exit(2)
}
let failed = 0
for (const name of names) {
  const path = runtime(name)
  console.log(`\n${name}: ${execFileSync(path, ['--version'], { encoding: 'utf8' }).split('\n')[0]}`)
  try {
    execFileSync(path, ARGUMENTS[name] ?? ['--test', CONCURRENCY, ...SUITE], { cwd: ROOT, stdio: 'inherit' })
  } catch {
    failed += 1
    console.log(`${name} FAILED`)
  }
}
console.log(`\n${names.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
