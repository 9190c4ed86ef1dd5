import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { assertFits, assertNoEscapes, assertRefused, jsonDocumentOf } from '../support/cli-output.mjs'
import { COMMAND, CONCURRENT, killChildren, waymark } from '../support/command.mjs'
import { OWNER, contentsOfStore, copyOfStore, exampleStore } from '../support/example-store.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'
import { CTRL_C, ENTER, noTerminal, openTerminal, openWaymark } from '../support/terminal.mjs'

const statusesIn = async (store, session) =>
  Object.fromEntries(Object.values(await store.loadTaskTree(session)).map(({ id, status }) => [id, status]))

describe('a destructive command', CONCURRENT, () => {
  let location
  let ids
  let untouched

  before(async () => {
    ;({ location, ids } = await exampleStore())
    untouched = contentsOfStore(location)
  })

  after(killChildren)

  /** The arguments of each, what it must announce, and the check of its effect. */
  const COMMANDS = {
    restore: {
      args: ['restore', 'nightly-build/green'],
      announces: [/nightly-build/, /401 tasks/],
      check: async (store) => {
        const { taskTree } = await store.getCheckpoint('nightly-build', ids.build[2])
        assert.deepEqual(await store.loadTaskTree('nightly-build'), taskTree)
      },
    },
    recover: {
      args: ['recover', 'broken'],
      announces: [/broken/, /damaged/],
      check: async (store) => {
        const { taskTree } = await store.getCheckpoint('broken', ids.broken[1])
        assert.deepEqual(await store.loadTaskTree('broken'), taskTree)
      },
    },
    prune: {
      args: ['prune', 'nightly-build', '--keep-last', '2'],
      announces: [/2 checkpoints/, /kB|MB|bytes/],
      check: async (store) => {
        const { checkpoints } = await store.listCheckpointInfo('nightly-build')
        const stay = [7, 6, 5, 4, 2, 0].map((number) => ids.build[number])
        assert.deepEqual(
          checkpoints.map(({ id }) => id),
          stay,
        )
      },
    },
    convert: {
      args: ['convert', 'zstd', 'nightly-build'],
      announces: [/nightly-build/, /zstd/, /10 checkpoints/],
      check: async (store) => {
        const { checkpoints } = await store.listCheckpointInfo('nightly-build')
        assert.deepEqual(new Set(checkpoints.map(({ encoding }) => encoding)), new Set(['zstd']))
      },
    },
    rm: {
      args: ['rm', 'migration'],
      announces: [/migration/, /2 checkpoints/, /kB|MB/],
      check: async (store) => assert.equal((await store.listSessions()).includes('migration'), false),
    },
  }

  for (const [name, { args, announces, check }] of Object.entries(COMMANDS)) {
    describe(name, () => {
      const answered = async (keys, columns = 80) => {
        const copy = copyOfStore(location)
        const terminal = openWaymark([...args, copy], { columns })
        await terminal.shows(/\[y\/N\]/)
        for (const announced of announces) assert.match(terminal.text.replaceAll(/\s+/g, ' '), announced)
        assert.deepEqual(contentsOfStore(copy), untouched, 'nothing is changed before the answer')
        terminal.type(keys)
        const code = await terminal.ended
        assertFits(terminal)
        return { code, copy, text: terminal.text }
      }

      const assertDone = async (copy) => {
        const store = await openStore(copy)
        await check(store)
        const whole = await Promise.all(
          (await store.listSessions())
            .filter((session) => session !== 'broken')
            .map(async (session) => (await store.verifySession(session)).whole),
        )
        assert.ok(whole.every(Boolean))
        await store.close()
      }

      it('without --yes and a terminal is refused and changes nothing', async () => {
        const copy = copyOfStore(location)
        assertRefused(await waymark([...args, copy]), /terminal/, { next: /--yes/ })
        assertRefused(await waymark([...args, copy, '--json']), /terminal/, { next: /--yes/ })
        assert.deepEqual(contentsOfStore(copy), untouched)
      })

      it('with --yes does not ask', async () => {
        const copy = copyOfStore(location)
        const outcome = await waymark([...args, copy, '--yes'])
        assert.equal(outcome.code, 0, outcome.stderr)
        assertNoEscapes(outcome)
        assert.doesNotMatch(outcome.stdout + outcome.stderr, /\[y\/N\]/)
        await assertDone(copy)
      })

      it('prints one JSON document with --json', async () => {
        const copy = copyOfStore(location)
        const outcome = await waymark([...args, copy, '--yes', '--json'])
        assert.equal(outcome.code, 0, outcome.stderr)
        assert.equal(typeof jsonDocumentOf(outcome), 'object')
        await assertDone(copy)
      })

      it('announces the change on a terminal, and changes nothing after n', { skip: noTerminal }, async () => {
        const { copy, text } = await answered(`n${ENTER}`)
        assert.deepEqual(contentsOfStore(copy), untouched)
        assert.match(text, /Nothing was changed/)
      })

      it('exits with 130 and changes nothing after Ctrl-C', { skip: noTerminal }, async () => {
        const { code, copy } = await answered(CTRL_C)
        assert.equal(code, 130)
        assert.deepEqual(contentsOfStore(copy), untouched)
      })

      for (const columns of [80, 120]) {
        it(`proceeds after y, on ${columns} columns`, { skip: noTerminal }, async () => {
          const { code, copy, text } = await answered(`y${ENTER}`, columns)
          assert.equal(code, 0, text)
          await assertDone(copy)
        })
      }

      it('with --yes does not ask on a terminal either', { skip: noTerminal }, async () => {
        const copy = copyOfStore(location)
        const terminal = openWaymark([...args, copy, '--yes'])
        assert.equal(await terminal.ended, 0, terminal.text)
        assert.doesNotMatch(terminal.text, /\[y\/N\]/)
        assertFits(terminal)
        await assertDone(copy)
      })
    })
  }

  it('is refused if only one of stdin and stderr is a terminal', { skip: noTerminal }, async () => {
    for (const line of ['echo y | "$0" "$@"', '"$0" "$@" 2> /dev/null']) {
      const copy = copyOfStore(location)
      const terminal = openTerminal(['sh', '-c', line, process.execPath, COMMAND, 'rm', 'migration', copy])
      assert.equal(await terminal.ended, 2, terminal.text)
      assert.deepEqual(contentsOfStore(copy), untouched)
    }
  })

  it(
    'changes nothing after an empty answer, another answer or the end of the input',
    { skip: noTerminal },
    async () => {
      for (const keys of [ENTER, `perhaps${ENTER}`, '\u0004']) {
        const copy = copyOfStore(location)
        const terminal = openWaymark(['rm', 'migration', copy])
        await terminal.shows(/\[y\/N\]/)
        terminal.type(keys)
        await terminal.ended
        assert.match(terminal.text, /Nothing was changed/)
        assert.deepEqual(contentsOfStore(copy), untouched)
      }
    },
  )

  it('restore resets interrupted and failed tasks only with the options for it', async () => {
    const restored = async (...options) => {
      const copy = copyOfStore(location)
      const outcome = await waymark(['restore', 'broken/whole', ...options, '--yes', '--store', copy])
      assert.equal(outcome.code, 0, outcome.stderr)
      const store = await openStore(copy)
      const statuses = await statusesIn(store, 'broken')
      await store.close()
      return statuses
    }
    assert.deepEqual(await Promise.all([restored(), restored('--reset-failed'), restored('--reset-in-progress')]), [
      { t: 'in_progress', u: 'failed' },
      { t: 'in_progress', u: 'pending' },
      { t: 'pending', u: 'failed' },
    ])
    assert.deepEqual(await restored('--reset-failed', '--reset-in-progress'), { t: 'pending', u: 'pending' })
  })

  it('refuses a leased session and names its owner', async () => {
    const copy = copyOfStore(location)
    for (const args of [
      ['restore', 'owned/latest'],
      ['rm', 'owned'],
      ['prune', 'owned', '--keep-last', '1'],
      ['convert', 'gzip', 'owned'],
    ]) {
      const outcome = await waymark([...args, '--yes', '--store', copy])
      assert.equal(outcome.code, 1, `${args.join(' ')}: ${outcome.stdout}`)
      assert.ok(outcome.stderr.includes(OWNER), outcome.stderr)
      assert.deepEqual(contentsOfStore(copy), untouched)
    }
  })

  it('restore refuses a damaged checkpoint and names the command that helps', async () => {
    const copy = copyOfStore(location)
    const outcome = await waymark(['restore', 'broken/damaged', '--yes', '--store', copy])
    assert.deepEqual([outcome.code, outcome.stdout], [1, ''])
    assert.match(outcome.stderr, /waymark verify/)
    assert.deepEqual(contentsOfStore(copy), untouched)
  })

  it('prune --dry-run lists what would be deleted, does not ask, and changes nothing', async () => {
    const copy = copyOfStore(location)
    const outcome = await waymark(['prune', 'nightly-build', '--keep-last', '2', '--dry-run', copy])
    assert.equal(outcome.code, 0, outcome.stderr)
    for (const number of [1, 3]) assert.ok(outcome.stdout.includes(ids.build[number]), outcome.stdout)
    assert.ok(!outcome.stdout.includes(ids.build[0]))
    const { dryRun, removed } = jsonDocumentOf(
      await waymark(['prune', 'nightly-build', '--keep-last', '2', '--dry-run', '--json', copy]),
    )
    assert.equal(dryRun, true)
    assert.deepEqual(
      removed.map(({ checkpointId }) => checkpointId),
      [ids.build[1], ids.build[3]],
    )
    assert.deepEqual(contentsOfStore(copy), untouched)
  })

  it(
    'prune deletes only the announced checkpoints, without those labelled or pinned during the confirmation',
    { skip: noTerminal },
    async () => {
      const directory = scratchDirectory()
      const store = await openStore(directory)
      const session = makeSession('live')
      const made = async () => (await checkpointOf(store, session)).checkpointId
      const old = []
      while (old.length < 6) old.push(await made())
      const terminal = openWaymark(['prune', 'live', '--keep-last', '2', directory])
      await terminal.shows(/4 checkpoints of 1 session.*will be deleted; 2 are kept/s)
      await store.pinCheckpoint('live', old[1])
      await store.labelCheckpoint('live', old[2], 'wanted')
      const young = [await made(), await made(), await made()]
      terminal.type(`y${ENTER}`)
      assert.equal(await terminal.ended, 0, terminal.text)
      assert.match(terminal.text, /2 checkpoints of 1 session.*deleted/)
      const { checkpoints } = await store.listCheckpointInfo('live')
      assert.deepEqual(checkpoints.map(({ id }) => id).toReversed(), [old[1], old[2], old[4], old[5], ...young])
      await store.close()
    },
  )

  it('prune reports dryRun: false if there was nothing to delete', async () => {
    const args = ['prune', 'nightly-build', '--keep-last', '99', '--json', location]
    assert.equal(jsonDocumentOf(await waymark([...args, '--yes'])).dryRun, false)
    assert.equal(jsonDocumentOf(await waymark([...args, '--dry-run'])).dryRun, true)
  })

  it('prune skips leased sessions and reports each once', async () => {
    const copy = copyOfStore(location)
    for (const [options, code] of [
      [['--dry-run'], 0],
      [['--yes'], 1],
    ]) {
      const args = ['prune', '--keep-last', '1', '--labelled-too', ...options, '--json', copy]
      const outcome = await waymark(args)
      assert.equal(outcome.code, code, outcome.stderr)
      const { removed, owned } = jsonDocumentOf(outcome)
      assert.ok(removed.length > 0 && removed.every(({ sessionId }) => sessionId !== 'owned'))
      assert.deepEqual(
        owned.map(({ sessionId, owner }) => [sessionId, owner]),
        [['owned', OWNER]],
      )
      assert.equal(outcome.stderr.split(OWNER).length, 2, outcome.stderr)
    }
    const refused = await waymark(['prune', 'owned', '--keep-last', '1', '--dry-run', copy])
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
  })

  it('prune accepts durations and sizes with units', async () => {
    const dry = async (...args) =>
      jsonDocumentOf(await waymark(['prune', 'nightly-build', ...args, '--dry-run', '--json', location])).removed.length
    assert.deepEqual(
      await Promise.all([
        dry('--max-age', '7d'),
        dry('--max-age', '1ms'),
        dry('--max-bytes', '500MB'),
        dry('--max-bytes', '1kB'),
        dry('--keep-hourly', '1', '--keep-daily', '1'),
      ]),
      [0, 3, 0, 3, 3],
    )
  })
})
