import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'

import { assertNoEscapes, assertRefused, jsonDocumentOf } from './support/cli-output.mjs'
import { COMMAND, environment, waymark } from './support/command.mjs'
import { SESSIONS, copyOfStore, exampleStore } from './support/example-store.mjs'
import { CheckpointStore, backends, durableBackends, scratchDirectory } from './support/stores.mjs'

const notRoot = process.getuid?.() !== 0 && 'only root can be somebody else'

const sessionsIn = (outcome) => jsonDocumentOf(outcome).sessions.map(({ id }) => id)

for (const place of durableBackends) {
  describe(`the command on a store of any kind (${place})`, () => {
    let location
    let ids

    before(async () => {
      ;({ location, ids } = await exampleStore(place))
    })

    const document = async (args, code = 0) => {
      const outcome = await waymark([...args, location, '--json'])
      assert.equal(outcome.code, code, outcome.stderr)
      return jsonDocumentOf(outcome)
    }

    it('looks at everything', async () => {
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

    it('steers everything', async () => {
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

describe('the place that the command looks at', () => {
  let location

  before(async () => {
    ;({ location } = await exampleStore())
  })

  it('is the last word, --store, -s or what the environment says, in that order', async () => {
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

  it('is the default of the class without a word', async () => {
    const home = scratchDirectory()
    mkdirSync(join(home, '.meshseeks'))
    renameSync(copyOfStore(location), join(home, '.meshseeks', 'sessions'))
    const env = { HOME: home, USERPROFILE: home }
    const ways = [waymark(['ls', '--json'], { env }), waymark(['ls', '~/.meshseeks/sessions', '--json'], { env })]
    for (const outcome of await Promise.all(ways)) assert.deepEqual(sessionsIn(outcome), SESSIONS)
    const { stdout } = await waymark(['show', 'nightly-report'], { env })
    assert.match(stdout, /Nightly report/)
  })

  it('is not a word that does not begin like a place', async () => {
    const outcome = await waymark(['ls', 'nightly-report', '--json'], { env: { WAYMARK_STORE: location } })
    assert.equal(jsonDocumentOf(outcome).sessionId, 'nightly-report')
  })

  it('is a database that one may write to, or else one is told so', { skip: notRoot }, async () => {
    const place = await emptyDatabase()
    chmodSync(dirname(place.slice('sqlite:'.length)), 0o755)
    const { status, stderr } = spawnSync(process.execPath, [COMMAND, 'ls', place], {
      uid: 65_534,
      env: environment(),
      encoding: 'utf8',
    })
    assert.equal(status, 1)
    assert.match(stderr, /^waymark: .*may write to it/)
  })

  it('is no empty file, and that stays empty', async () => {
    const file = join(scratchDirectory(), 'empty.db')
    writeFileSync(file, '')
    assertRefused(await waymark(['ls', `sqlite:${file}`]), /no store/, { next: /Check/ })
    assert.equal(statSync(file).size, 0)
  })

  it('may be empty', async () => {
    for (const place of [scratchDirectory(), await emptyDatabase()]) {
      const [list, listed, stats, verified] = await Promise.all([
        waymark(['ls', place]),
        waymark(['ls', place, '--json']),
        waymark(['stats', place]),
        waymark(['verify', place]),
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

/** A directory in which the store is called `here`. */
function linked(copy) {
  renameSync(copy, join(dirname(copy), 'here'))
  return dirname(copy)
}
