// Runs the PostgreSQL tests with the built binary, on a new server or the one of DATABASE_URL.
//
//   node scripts/test-postgres.mjs [part ...]

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { query, quoted } from './postgres-wire.mjs'
import { startPostgres } from './postgres.mjs'
import { CONCURRENCY, POSTGRES_TESTS, ROOT, testsIn } from './test-files.mjs'

/** The tests that must hold on every backend: those that import one of these from support/stores.mjs. */
const BACKENDS = /\b(onEveryBackend|onSharedBackends|backends|durableBackends|targetsFrom)\b/

function suite() {
  const imported = (path) =>
    /\{([^}]*)\} from '\.\.?\/support\/stores.mjs'/.exec(readFileSync(join(ROOT, path), 'utf8'))?.[1]
  return testsIn('__test__').filter((path) => BACKENDS.test(imported(path)))
}

const PARTS = {
  rust: () => ['cargo', ['test', '--lib', 'postgres']],
  suite: () => [process.execPath, ['--test', CONCURRENCY, ...suite()]],
  // One at a time: servers are stopped, and time limits are measured.
  faults: () => [process.execPath, ['--test', '--test-concurrency=1', ...testsIn(POSTGRES_TESTS)]],
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(PARTS)
const unknown = names.filter((name) => !(name in PARTS))
if (unknown.length > 0) {
  console.error(`Unknown part ${unknown.join(', ')}. There are: ${Object.keys(PARTS).join(', ')}`)
  process.exit(2)
}

const given = process.env.DATABASE_URL
const server = given ? undefined : await startPostgres()
const url = given ?? server.url
if (server) {
  const { version, binaries, startedInMs } = server
  console.log(`PostgreSQL ${version} of ${binaries} on port ${new URL(url).port}, up in ${startedInMs / 1000} s`)
} else {
  const { parameters } = await query(url, '')
  console.log(`PostgreSQL ${parameters.server_version} at ${new URL(url).host}, as DATABASE_URL says`)
}

/** The prefix of the schemas of this run. */
const prefix = `waymark_test_${Date.now().toString(36)}_`
const env = { ...process.env, WAYMARK_TEST_DATABASE_URL: url, WAYMARK_TEST_SCHEMA_PREFIX: prefix }
// A store does not show its password; a test that opens the location of another store takes it from here.
const { password } = new URL(url)
if (password) env.PGPASSWORD = decodeURIComponent(password)

let child
// Before the server is stopped.
process.prependOnceListener('exit', () => child?.kill())

let exitCode = 0
try {
  for (const name of names) {
    console.log(`\n${name}`)
    const code = await ran(...PARTS[name]())
    if (code !== 0) console.log(`${name} FAILED`)
    exitCode ||= code
  }
} finally {
  await (server ? server.stop() : dropSchemas())
}
process.exitCode = exitCode

function ran(program, args) {
  child = spawn(program, args, { cwd: ROOT, env, stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.once('error', reject).once('exit', (code) => resolve(code ?? 1))
  })
}

/** A server that was already running is left unchanged. */
async function dropSchemas() {
  const named = `SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '${prefix}')`
  const { rows } = await query(url, named)
  for (const [schema] of rows) await query(url, `DROP SCHEMA ${quoted(schema)} CASCADE`)
}
