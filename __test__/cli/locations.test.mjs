import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'

import { assertNoEscapes, assertRefused, jsonDocumentOf } from '../support/cli-output.mjs'
import { COMMAND, environment, waymark } from '../support/command.mjs'
import { SESSIONS, copyOfStore, exampleStore } from '../support/example-store.mjs'
import { CheckpointStore, backends, durableBackends, scratchDirectory } from '../support/stores.mjs'

const notRoot = process.getuid?.() !== 0 && 'only root can run a command as another user'

const sessionsIn = (outcome) => jsonDocumentOf(outcome).sessions.map(({ id }) => id)

for (const backend of durableBackends) {
  describe(`the command on a store (${backend})`, () => {
    let location
    let ids

    before(async () => {
      ;({ location, ids } = await exampleStore(backend))
    })

    const document = async (args, code = 0) => {
      const outcome = await waymark([...args, location, '--json'])
      assert.equal(outcome.code, code, outcome.stderr)
      return jsonDocumentOf(outcome)
    }

    it('reads with every reading command', async () => {
      assert.deepEqual(sessionsIn(await waymark(['ls', location, '--json'])), SESSIONS)
      const listed = await document(['ls', 'nightly-build'])
      assert.deepEqual(
        listed.checkpoints.map(({ id, whole }) => [id, whole]),
        ids.build.toReversed().map((id) => [id, true]),
      )
      assert.equal((await document(['show', 'nightly-build/green'])).id, ids.build[2])
      assert.equal((await document(['diff', 'nightly-build/green', 'latest'], 1)).identical, false)
      for (const args of [['log', 'nightly-build'], ['stats'], ['verify', 'nightly-build']]) await document(args)
      await document(['verify'], 1)
      for (const args of [['ls'], ['log', 'what-if'], ['show', 'migration'], ['stats']]) {
        const outcome = await waymark([...args, location])
        assert.equal(outcome.code, 0, outcome.stderr)
        assertNoEscapes(outcome)
      }
    })

    it('writes with every writing command', async () => {
      const file = join(scratchDirectory(), 'build.waymark')
      assert.equal((await document(['fork', 'nightly-build/green', 'forked'])).sessionId, 'forked')
      await document(['label', 'forked/latest', 'begun'])
      await document(['pin', 'forked/begun'])
      assert.equal((await document(['restore', 'nightly-build/green', '--yes'])).restoredTasks, 401)
      assert.equal((await document(['recover', 'broken', '--yes'])).checkpointId, ids.broken[1])
      await document(['convert', 'gzip', 'nightly-report', '--yes'])
      const converted = await document(['ls', 'nightly-report'])
      assert.deepEqual(
        converted.checkpoints.map(({ encoding }) => encoding),
        ['gzip', 'gzip'],
      )
      await document(['export', 'nightly-report', file])
      assert.equal((await document(['import', file, '--as', 'imported'])).sessionId, 'imported')
      const pruned = await document(['prune', 'nightly-build', '--keep-last', '2', '--yes'])
      assert.deepEqual(
        pruned.removed.map(({ checkpointId }) => checkpointId),
        [ids.build[1], ids.build[3]],
      )
      await document(['rm', 'migration', '--yes'])
      assert.deepEqual(
        sessionsIn(await waymark(['ls', location, '--json'])),
        [...SESSIONS, 'forked', 'imported'].filter((session) => session !== 'migration').toSorted(),
      )
      const target = backends.sqlite()
      const copied = await waymark(['copy', location, target, '--json'])
      assert.equal(copied.code, 0, copied.stderr)
      assert.deepEqual(sessionsIn(await waymark(['ls', target, '--json'])), jsonDocumentOf(copied).sessions)
    })
  })
}

describe('the location of the store', () => {
  let location

  before(async () => {
    ;({ location } = await exampleStore())
  })

  it('is the last argument, --store, -s or WAYMARK_STORE', async () => {
    const elsewhere = { env: { WAYMARK_STORE: join(location, 'absent') } }
    const ways = [
      waymark(['ls', location, '--json'], elsewhere),
      waymark(['ls', '--store', location, '--json'], elsewhere),
      waymark(['ls', `--store=${location}`, '--json'], elsewhere),
      waymark(['ls', '-s', location, '--json'], elsewhere),
      waymark(['ls', '--json'], { env: { WAYMARK_STORE: location } }),
      waymark(['ls', '.', '--json'], { cwd: location }),
      waymark(['ls', './here', '--json'], { cwd: linked(copyOfStore(location)) }),
    ]
    for (const outcome of await Promise.all(ways)) assert.deepEqual(sessionsIn(outcome), SESSIONS)
  })

  it('is the default of the class if none is given', async () => {
    const home = scratchDirectory()
    mkdirSync(join(home, '.meshseeks'))
    renameSync(copyOfStore(location), join(home, '.meshseeks', 'sessions'))
    const env = { HOME: home, USERPROFILE: home }
    const ways = [waymark(['ls', '--json'], { env }), waymark(['ls', '~/.meshseeks/sessions', '--json'], { env })]
    for (const outcome of await Promise.all(ways)) assert.deepEqual(sessionsIn(outcome), SESSIONS)
    const { stdout } = await waymark(['show', 'nightly-report'], { env })
    assert.match(stdout, /Nightly report/)
  })

  it('is not an argument that does not look like a location', async () => {
    const outcome = await waymark(['ls', 'nightly-report', '--json'], { env: { WAYMARK_STORE: location } })
    assert.equal(jsonDocumentOf(outcome).sessionId, 'nightly-report')
  })

  it('is refused with an explanation if it is a database without write permission', { skip: notRoot }, async () => {
    const database = await emptyDatabase()
    chmodSync(dirname(database.slice('sqlite:'.length)), 0o755)
    const { status, stderr } = spawnSync(process.execPath, [COMMAND, 'ls', database], {
      uid: 65_534,
      env: environment(),
      encoding: 'utf8',
    })
    assert.equal(status, 1)
    assert.match(stderr, /^waymark: .*needs write permission/)
  })

  it('is refused if it is an empty file, which stays empty', async () => {
    const file = join(scratchDirectory(), 'empty.db')
    writeFileSync(file, '')
    assertRefused(await waymark(['ls', `sqlite:${file}`]), /no store/, { next: /Check/ })
    assert.equal(statSync(file).size, 0)
  })

  it('may be a store without sessions', async () => {
    for (const emptyStore of [scratchDirectory(), await emptyDatabase()]) {
      const [list, listed, stats, verified] = await Promise.all([
        waymark(['ls', emptyStore]),
        waymark(['ls', emptyStore, '--json']),
        waymark(['stats', emptyStore]),
        waymark(['verify', emptyStore]),
      ])
      assert.deepEqual([list.code, listed.code, stats.code, verified.code], [0, 0, 0, 0])
      assert.match(list.stdout, /[Nn]o sessions/)
      assert.deepEqual(sessionsIn(listed), [])
    }
  })
})

async function emptyDatabase() {
  const location = backends.sqlite()
  const store = new CheckpointStore(location)
  await store.initialize()
  await store.close()
  return location
}

/** The parent directory of a store that was renamed to `here`. */
function linked(copy) {
  renameSync(copy, join(dirname(copy), 'here'))
  return dirname(copy)
}
