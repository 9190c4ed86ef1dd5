// Runs the suite on every supported runtime with one binary. Without names, it skips the version of Node that
// it runs on, which `npm test` covers.
//
//   node scripts/test-runtimes.mjs [name ...]

import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { RUNTIMES, runtime } from './runtimes.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

// These run only with `npm test`: the tests of the package and its documents need npm and a compiler, the long ones test the
// store, and the command is the same JavaScript on every runtime.
const ONCE = /^(?:package|readme|model|mixed-campaign|terminal|cli-.*)\.test\.mjs$/
const SUITE = readdirSync(join(ROOT, '__test__'))
  .filter((name) => name.endsWith('.test.mjs') && !ONCE.test(name))
  .map((name) => join('__test__', name))
const SMOKE = join('__test__', 'smoke.mjs')
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
    execFileSync(path, ARGUMENTS[name] ?? ['--test', ...SUITE], { cwd: ROOT, stdio: 'inherit' })
  } catch {
    failed += 1
    console.log(`${name} FAILED`)
  }
}
console.log(`\n${names.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
