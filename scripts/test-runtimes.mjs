// Runs the suite on every supported runtime, with the one binary that is built. The runtimes come from the npm registry
// and are kept in .runtimes/.
//
//   node scripts/test-runtimes.mjs [name ...]

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

// The tests of the package and its documents need npm and a compiler, not a particular runtime.
const SUITE = readdirSync(join(ROOT, '__test__'))
  .filter((name) => name.endsWith('.test.mjs') && !['package.test.mjs', 'readme.test.mjs'].includes(name))
  .map((name) => join('__test__', name))
const SMOKE = join('__test__', 'smoke.mjs')

const RUNTIMES = {
  node20: { install: 'node@20', binary: 'node', args: ['--test', ...SUITE] },
  node22: { install: 'node@22', binary: 'node', args: ['--test', ...SUITE] },
  node24: { install: 'node@24', binary: 'node', args: ['--test', ...SUITE] },
  node26: { install: 'node@26', binary: 'node', args: ['--test', ...SUITE] },
  bun: { install: 'bun@1.4', binary: 'bun', args: [SMOKE] },
  deno: { install: 'deno@2.9', binary: 'deno', args: ['run', '--allow-all', SMOKE] },
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(RUNTIMES)
const unknown = names.filter((name) => !(name in RUNTIMES))
if (unknown.length > 0) {
  console.error(`Unknown runtime ${unknown.join(', ')}. There are: ${Object.keys(RUNTIMES).join(', ')}`)
  process.exit(2)
}
let failed = 0
for (const name of names) {
  const { install, binary, args } = RUNTIMES[name]
  const prefix = join(ROOT, '.runtimes', name)
  const path = join(prefix, 'node_modules', '.bin', binary)
  if (!existsSync(path)) {
    execFileSync('npm', ['install', '--silent', '--no-save', '--prefix', prefix, install], { stdio: 'inherit' })
  }
  console.log(`\n${name}: ${execFileSync(path, ['--version'], { encoding: 'utf8' }).split('\n')[0]}`)
  try {
    execFileSync(path, args, { cwd: ROOT, stdio: 'inherit' })
  } catch {
    failed += 1
    console.log(`${name} FAILED`)
  }
}
console.log(`\n${names.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
