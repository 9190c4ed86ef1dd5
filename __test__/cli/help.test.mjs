import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'

import { assertFits, assertNoEscapes, assertPlain } from '../support/cli-output.mjs'
import { COMMAND, CONCURRENT, environment, waymark } from '../support/command.mjs'
import { copyOfStore, exampleStore } from '../support/example-store.mjs'
import { makeSession, makeTask } from '../support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'
import { noTerminal, seenOf } from '../support/terminal.mjs'

const COMMANDS =
  'ls log show diff verify recover restore fork label pin prune export import copy convert rm stats watch demo completion'.split(
    ' ',
  )

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** An environment in which loading the addon fails. */
const WITHOUT_ADDON = { NAPI_RS_NATIVE_LIBRARY_PATH: join(dirname(COMMAND), 'no-such-addon.node') }

/** The command lines that a help text shows as examples. */
function examplesIn(help) {
  const [, examples = ''] = /^Examples?:\n((?: +.*\n?)+)/m.exec(help) ?? []
  return examples
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.trim().replace(/^\$ /, ''))
}

/** The help of each command. */
const helps = {}

before(async () => {
  const outcomes = await Promise.all(COMMANDS.map((name) => waymark([name, '--help'], { env: WITHOUT_ADDON })))
  for (const [at, name] of COMMANDS.entries()) helps[name] = outcomes[at]
})

describe('the help of the command', CONCURRENT, () => {
  it('lists every command with a summary', async () => {
    const outcome = await waymark(['--help'], { env: WITHOUT_ADDON })
    assert.deepEqual([outcome.code, outcome.stderr], [0, ''])
    assertPlain(outcome.stdout)
    for (const name of COMMANDS) assert.match(outcome.stdout, new RegExp(`^ +${name} +[A-Z].*`, 'm'))
    const same = await Promise.all([waymark(['-h']), waymark(['help'])])
    assert.deepEqual(
      same.map(({ code, stdout }) => [code, stdout]),
      same.map(() => [0, outcome.stdout]),
    )
  })

  for (const name of COMMANDS) {
    it(`of ${name} shows usage, options and examples`, () => {
      const { code, stdout, stderr } = helps[name]
      assert.deepEqual([code, stderr], [0, ''])
      assertPlain(stdout)
      assert.match(stdout, new RegExp(`^Usage: waymark ${name}\\b`, 'm'))
      for (const option of ['--json', '--help']) assert.match(stdout, new RegExp(`^ +(?:-\\w, )?${option}\\b`, 'm'))
      const examples = examplesIn(stdout)
      assert.ok(examples.length > 0)
      for (const example of examples) assert.match(example, new RegExp(`\\bwaymark ${name}\\b`))
    })
  }

  it('fits a terminal of 80 columns', { skip: noTerminal }, async () => {
    const all = [['--help'], ...COMMANDS.map((name) => [name, '--help'])]
    for (const seen of await Promise.all(all.map((args) => seenOf(args, { columns: 80 })))) {
      assert.equal(seen.code, 0)
      assertFits(seen)
    }
  })

  it('is the same for help <command>, -h and --help after other options', async () => {
    for (const args of [
      ['help', 'prune'],
      ['prune', '-h'],
      ['prune', '--keep-last', '3', '--help'],
    ]) {
      assert.equal((await waymark(args)).stdout, helps.prune.stdout)
    }
  })

  it('of --version and -V is the version', async () => {
    for (const args of [['--version'], ['-V']]) {
      const outcome = await waymark(args, { env: WITHOUT_ADDON })
      assert.deepEqual(outcome, { code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
    }
  })

  it('does not load the addon, nor do completion scripts and usage errors', async () => {
    // Check that the environment has an effect.
    const { location } = await exampleStore()
    assert.notEqual((await waymark(['ls', location], { env: WITHOUT_ADDON })).code, 0)
    const codes = await Promise.all(
      [['completion', 'bash'], ['completion', 'zsh'], ['completion', 'fish'], ['lss'], ['ls', '--frobnicate'], []].map(
        async (args) => (await waymark(args, { env: WITHOUT_ADDON })).code,
      ),
    )
    assert.deepEqual(codes, [0, 0, 0, 2, 2, 2])
  })
})

/** A home directory with the store of the examples: the default one, `./sessions` and `sqlite:./store.db`. */
async function homeForExamples() {
  const home = scratchDirectory()
  const store = await openStore(join(home, '.meshseeks', 'sessions'))
  for (const id of ['nightly', 'nightly-by-hand']) {
    const session = makeSession(id, { taskTree: { t: makeTask('t'), u: makeTask('u', { status: 'failed' }) } })
    for (const label of ['begun', 'before-tests', undefined, undefined, undefined]) {
      session.taskTree.t.status = label === 'begun' ? 'in_progress' : 'completed'
      const { checkpointId } = await checkpointOf(store, session, { trigger: 'manual', includeContext: true, label })
      session.lastCheckpointId = checkpointId
    }
    await store.saveSession(session)
    await store.saveTaskTree(id, session.taskTree)
  }
  const database = await openStore(`sqlite:${join(home, 'store.db')}`)
  const directory = await openStore(join(home, 'sessions'))
  await store.copyTo(database)
  await store.copyTo(directory)
  await Promise.all([store, database, directory].map((opened) => opened.close()))
  return home
}

/** Commands to run before an example. */
const PREPARATIONS = {
  fork: [['rm', 'nightly-by-hand', '--yes']],
  import: [
    ['export', 'nightly', 'nightly.zst'],
    ['rm', 'nightly', '--yes'],
  ],
}

/** Examples that do not end by themselves, need a server, or have tests of their own. */
const isTestedElsewhere = (example) => /\b(watch|demo|postgres:)/.test(example)

describe('an example in the help', CONCURRENT, () => {
  let original

  before(async () => {
    original = await homeForExamples()
  })

  for (const name of COMMANDS) {
    it(`of ${name} runs as written`, async () => {
      for (const example of examplesIn(helps[name].stdout).filter((line) => !isTestedElsewhere(line))) {
        const home = copyOfStore(original)
        const options = { cwd: home, env: { HOME: home, USERPROFILE: home } }
        for (const args of PREPARATIONS[name] ?? []) {
          const prepared = await waymark(args, options)
          assert.equal(prepared.code, 0, prepared.stderr)
        }
        const outcome = await runExample(example, options)
        // Exit code 1 means damage or a difference.
        const expected = ['diff', 'verify'].includes(name) ? [0, 1] : [0]
        assert.ok(expected.includes(outcome.code), `${example}: ${outcome.code} ${outcome.stderr}`)
        assertNoEscapes(outcome)
      }
    })
  }
})

/** Runs a command line; adds --yes to destructive commands. */
async function runExample(example, { cwd, env }) {
  const needsYes =
    /\bwaymark (restore|recover|rm|prune|convert|copy)\b/.test(example) && !/--yes|-y\b|--dry-run/.test(example)
  if (process.platform === 'win32' || /[|$<>(]/.test(example) === false) {
    const words = example.replace(/^npx /, '').split(/ +/).slice(1)
    const inHome = words.map((word) => word.replace(/^['"]|['"]$/g, '').replace(/^~(?=\/)/, cwd))
    return waymark(needsYes ? [...inHome, '--yes'] : inHome, { cwd, env })
  }
  const script = `waymark() { "${process.execPath}" "${COMMAND}" "$@"; }\n${example.replace(/^npx /, '')}`
  const { status, stdout, stderr } = spawnSync('bash', ['-c', script], { cwd, env: environment(env), encoding: 'utf8' })
  return { code: status, stdout, stderr }
}

describe('the start-up time', () => {
  it('is reported relative to an empty Node.js program', async (t) => {
    const { location } = await exampleStore()
    const env = environment()
    const timed = (args) => {
      const began = performance.now()
      const { status } = spawnSync(process.execPath, args, { env, stdio: 'ignore' })
      assert.equal(status, 0)
      return performance.now() - began
    }
    const times = { nothing: [], ls: [] }
    for (let round = 0; round < 11; round += 1) {
      times.nothing.push(timed(['-e', '0']))
      times.ls.push(timed([COMMAND, 'ls', location]))
    }
    const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1]
    const [nothing, ls] = [median(times.nothing), median(times.ls)]
    t.diagnostic(
      `waymark ls ${ls.toFixed(0)} ms, node -e 0 ${nothing.toFixed(0)} ms: ${(ls / nothing).toFixed(2)} times`,
    )
  })
})
