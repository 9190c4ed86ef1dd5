import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { assertFits, assertNoEscapes, assertRefused, jsonDocumentOf } from './support/cli-output.mjs'
import { COMMAND, CONCURRENT, killChildren, waymark } from './support/command.mjs'
import { OWNER, contentsOfStore, copyOfStore, exampleStore } from './support/example-store.mjs'
import { makeSession } from './support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from './support/stores.mjs'
import { CTRL_C, ENTER, noTerminal, openTerminal, openWaymark } from './support/terminal.mjs'

const statusesIn = async (store, session) =>
  Object.fromEntries(Object.values(await store.loadTaskTree(session)).map(({ id, status }) => [id, status]))

describe('a command that takes something away', CONCURRENT, () => {
  let location
  let ids
  let untouched

  before(async () => {
    ;({ location, ids } = await exampleStore())
    untouched = contentsOfStore(location)
  })

  after(killChildren)

  /** What each is called with, what it must announce, and how to see that it was done. */
  const COMMANDS = {
    restore: {
      args: ['restore', 'nightly-build/green'],
      announces: [/nightly-build/, /401 tasks/],
      isDone: async (store) => {
        const { taskTree } = await store.getCheckpoint('nightly-build', ids.build[2])
        assert.deepEqual(await store.loadTaskTree('nightly-build'), taskTree)
      },
    },
    recover: {
      args: ['recover', 'broken'],
      announces: [/broken/, /damaged/],
      isDone: async (store) => {
        const { taskTree } = await store.getCheckpoint('broken', ids.broken[1])
        assert.deepEqual(await store.loadTaskTree('broken'), taskTree)
      },
    },
    prune: {
      args: ['prune', 'nightly-build', '--keep-last', '2'],
      announces: [/2 checkpoints/, /kB|MB|bytes/],
      isDone: async (store) => {
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
      isDone: async (store) => {
        const { checkpoints } = await store.listCheckpointInfo('nightly-build')
        assert.deepEqual(new Set(checkpoints.map(({ encoding }) => encoding)), new Set(['zstd']))
      },
    },
    rm: {
      args: ['rm', 'migration'],
      announces: [/migration/, /2 checkpoints/, /kB|MB/],
      isDone: async (store) => assert.equal((await store.listSessions()).includes('migration'), false),
    },
  }

  for (const [name, { args, announces, isDone }] of Object.entries(COMMANDS)) {
    describe(name, () => {
      const answered = async (keys, columns = 80) => {
        const copy = copyOfStore(location)
        const terminal = openWaymark([...args, copy], { columns })
        await terminal.shows(/\[y\/N\]/)
        for (const announced of announces) assert.match(terminal.text.replaceAll(/\s+/g, ' '), announced)
        assert.deepEqual(contentsOfStore(copy), untouched, 'nothing happens before the answer')
        terminal.type(keys)
        const code = await terminal.ended
        assertFits(terminal)
        return { code, copy, text: terminal.text }
      }

      const assertDone = async (copy) => {
        const store = await openStore(copy)
        await isDone(store)
        const whole = await Promise.all(
          (await store.listSessions())
            .filter((session) => session !== 'broken')
            .map(async (session) => (await store.verifySession(session)).whole),
        )
        assert.ok(whole.every(Boolean))
        await store.close()
      }

      it('refuses without a terminal, and changes nothing', async () => {
        const copy = copyOfStore(location)
        assertRefused(await waymark([...args, copy]), /terminal/, { next: /--yes/ })
        assertRefused(await waymark([...args, copy, '--json']), /terminal/, { next: /--yes/ })
        assert.deepEqual(contentsOfStore(copy), untouched)
      })

      it('does it without a question when it is told --yes', async () => {
        const copy = copyOfStore(location)
        const outcome = await waymark([...args, copy, '--yes'])
        assert.equal(outcome.code, 0, outcome.stderr)
        assertNoEscapes(outcome)
        assert.doesNotMatch(outcome.stdout + outcome.stderr, /\[y\/N\]/)
        await assertDone(copy)
      })

      it('gives one document of what it did', async () => {
        const copy = copyOfStore(location)
        const outcome = await waymark([...args, copy, '--yes', '--json'])
        assert.equal(outcome.code, 0, outcome.stderr)
        assert.equal(typeof jsonDocumentOf(outcome), 'object')
        await assertDone(copy)
      })

      it('says on a terminal what it will do, and does not at n', { skip: noTerminal }, async () => {
        const { copy, text } = await answered(`n${ENTER}`)
        assert.deepEqual(contentsOfStore(copy), untouched)
        assert.match(text, /Nothing was changed/)
      })

      it('takes Ctrl-C for a no', { skip: noTerminal }, async () => {
        const { code, copy } = await answered(CTRL_C)
        assert.equal(code, 130)
        assert.deepEqual(contentsOfStore(copy), untouched)
      })

      for (const columns of [80, 120]) {
        it(`does it at y, on ${columns} columns`, { skip: noTerminal }, async () => {
          const { code, copy, text } = await answered(`y${ENTER}`, columns)
          assert.equal(code, 0, text)
          await assertDone(copy)
        })
      }

      it('asks nothing on a terminal when it is told --yes', { skip: noTerminal }, async () => {
        const copy = copyOfStore(location)
        const terminal = openWaymark([...args, copy, '--yes'])
        assert.equal(await terminal.ended, 0, terminal.text)
        assert.doesNotMatch(terminal.text, /\[y\/N\]/)
        assertFits(terminal)
        await assertDone(copy)
      })
    })
  }

  it(
    'refuses where a question could be asked but nobody can answer, or the other way round',
    { skip: noTerminal },
    async () => {
      for (const line of ['echo y | "$0" "$@"', '"$0" "$@" 2> /dev/null']) {
        const copy = copyOfStore(location)
        const terminal = openTerminal(['sh', '-c', line, process.execPath, COMMAND, 'rm', 'migration', copy])
        assert.equal(await terminal.ended, 2, terminal.text)
        assert.deepEqual(contentsOfStore(copy), untouched)
      }
    },
  )

  it('takes nothing, something else and the end of the input for a no', { skip: noTerminal }, async () => {
    for (const keys of [ENTER, `perhaps${ENTER}`, '\u0004']) {
      const copy = copyOfStore(location)
      const terminal = openWaymark(['rm', 'migration', copy])
      await terminal.shows(/\[y\/N\]/)
      terminal.type(keys)
      await terminal.ended
      assert.match(terminal.text, /Nothing was changed/)
      assert.deepEqual(contentsOfStore(copy), untouched)
    }
  })

  it('sends interrupted and failed tasks back only if it is asked to', async () => {
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

  it('does not touch what somebody else owns, and says who', async () => {
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

  it('does not restore what is damaged, and says what would help', async () => {
    const copy = copyOfStore(location)
    const outcome = await waymark(['restore', 'broken/damaged', '--yes', '--store', copy])
    assert.deepEqual([outcome.code, outcome.stdout], [1, ''])
    assert.match(outcome.stderr, /waymark verify/)
    assert.deepEqual(contentsOfStore(copy), untouched)
  })

  it('prunes nothing in a dry run, asks nothing, and says what would go', async () => {
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

  it('removes what it announced and nothing else, whatever came meanwhile', { skip: noTerminal }, async () => {
    const place = scratchDirectory()
    const store = await openStore(place)
    const session = makeSession('live')
    const made = async () => (await checkpointOf(store, session)).checkpointId
    const old = []
    while (old.length < 6) old.push(await made())
    const terminal = openWaymark(['prune', 'live', '--keep-last', '2', place])
    await terminal.shows(/4 checkpoints of 1 session.*will be removed; 2 stay/s)
    await store.pinCheckpoint('live', old[1])
    await store.labelCheckpoint('live', old[2], 'wanted')
    const young = [await made(), await made(), await made()]
    terminal.type(`y${ENTER}`)
    assert.equal(await terminal.ended, 0, terminal.text)
    assert.match(terminal.text, /2 checkpoints of 1 session.*removed/)
    const { checkpoints } = await store.listCheckpointInfo('live')
    assert.deepEqual(checkpoints.map(({ id }) => id).toReversed(), [old[1], old[2], old[4], old[5], ...young])
    await store.close()
  })

  it('was no dry run when there was nothing to prune', async () => {
    const args = ['prune', 'nightly-build', '--keep-last', '99', '--json', location]
    assert.equal(jsonDocumentOf(await waymark([...args, '--yes'])).dryRun, false)
    assert.equal(jsonDocumentOf(await waymark([...args, '--dry-run'])).dryRun, true)
  })

  it('prunes all sessions but those that somebody owns, and says so once each', async () => {
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

  it('takes ages and sizes as people write them', async () => {
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
