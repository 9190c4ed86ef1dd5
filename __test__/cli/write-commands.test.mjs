import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { WIDTHS, assertFits, assertNoEscapes, jsonDocumentOf } from '../support/cli-output.mjs'
import { CONCURRENT, outcomeOf, startWaymark, waymark } from '../support/command.mjs'
import { OWNER, SESSIONS, contentsOfStore, copyOfStore, exampleStore } from '../support/example-store.mjs'
import { contentsOfSession } from '../support/full-session.mjs'
import { CHECKPOINT_COUNT, manyCheckpoints } from '../support/large-stores.mjs'
import { makeSession } from '../support/sessions.mjs'
import { openStore, scratchDirectory } from '../support/stores.mjs'
import { noTerminal, seenOf } from '../support/terminal.mjs'

describe('a writing command', CONCURRENT, () => {
  let location
  let ids

  before(async () => {
    ;({ location, ids } = await exampleStore())
  })

  /** Runs a command as text, as JSON and on terminals, each on its own copy of the store, and checks the result. */
  const runAll = async (args, check) => {
    const plain = copyOfStore(location)
    const outcome = await waymark([...args(plain), '--store', plain])
    assert.equal(outcome.code, 0, outcome.stderr)
    assertNoEscapes(outcome)
    assert.notEqual(outcome.stdout, '', 'it reports what it did')
    await inspect(plain, check)

    const machine = copyOfStore(location)
    const answered = await waymark([...args(machine), '--store', machine, '--json'])
    assert.equal(answered.code, 0, answered.stderr)
    const document = jsonDocumentOf(answered)
    await inspect(machine, check)

    if (noTerminal) return { text: outcome.stdout, document }
    for (const columns of WIDTHS) {
      const screen = copyOfStore(location)
      const seen = await seenOf([...args(screen), '--store', screen], { columns })
      assert.equal(seen.code, 0, seen.text)
      assertFits(seen)
      await inspect(screen, check)
    }
    return { text: outcome.stdout, document }
  }

  const inspect = async (directory, check) => {
    const store = await openStore(directory)
    await check(store, directory)
    await store.close()
  }

  it('fork creates a session from a checkpoint', async () => {
    const { text, document } = await runAll(
      () => ['fork', 'nightly-build/green', 'second try'],
      async (store) => {
        const { forkedFrom } = await store.loadSession('second try')
        assert.deepEqual(forkedFrom, { sessionId: 'nightly-build', checkpointId: ids.build[2] })
        assert.equal(Object.keys(await store.loadTaskTree('second try')).length, 401)
        assert.equal((await store.verifySession('second try')).whole, true)
      },
    )
    assert.match(text, /second try/)
    assert.equal(document.sessionId, 'second try')
  })

  it('fork resets tasks to pending with --reset-failed and --reset-in-progress', async () => {
    await runAll(
      () => ['fork', 'broken/whole', 'again', '--reset-failed', '--reset-in-progress'],
      async (store) => {
        const tree = await store.loadTaskTree('again')
        assert.deepEqual([tree.t.status, tree.u.status], ['pending', 'pending'])
        assert.equal((await store.loadTaskTree('broken')).u.status, 'completed')
      },
    )
  })

  const labelOf = async (store, id) =>
    (await store.listCheckpointInfo('nightly-build')).checkpoints.find((c) => c.id === id).label

  it('label sets a label, and removes it with --remove', async () => {
    await runAll(
      () => ['label', 'nightly-build/latest', 'the last one'],
      async (store) => assert.equal(await labelOf(store, ids.build[7]), 'the last one'),
    )
    await runAll(
      () => ['label', 'nightly-build/green', '--remove'],
      async (store) => assert.equal(await labelOf(store, ids.build[2]), undefined),
    )
  })

  const pinnedIn = async (store) =>
    (await store.listCheckpointInfo('nightly-build')).checkpoints.filter(({ pinned }) => pinned).map(({ id }) => id)

  it('pin pins a checkpoint, and unpins it with --off', async () => {
    await runAll(
      () => ['pin', 'nightly-build/latest~1'],
      async (store) => assert.deepEqual(await pinnedIn(store), [ids.build[6], ids.build[2], ids.build[0]]),
    )
    await runAll(
      () => ['pin', 'nightly-build/green', '--off'],
      async (store) => assert.deepEqual(await pinnedIn(store), [ids.build[0]]),
    )
  })

  it('export writes a session to a file', async () => {
    const { document } = await runAll(
      (directory) => ['export', 'nightly-build', join(directory, '..', 'build.waymark')],
      (_, directory) => assert.ok(statSync(join(directory, '..', 'build.waymark')).size > 1000),
    )
    assert.equal(document.sessionId, 'nightly-build')
    assert.equal(document.checkpoints, 11)
  })

  it('import creates the exported session in a new store, and under another id with --as', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'build.waymark')
    assert.equal((await waymark(['export', 'nightly-build', file, location])).code, 0)
    const original = await openStore(location)
    const expected = await contentsOfSession(original, 'nightly-build')
    for (const target of [join(directory, 'new'), `sqlite:${join(directory, 'new.db')}`]) {
      const outcome = await waymark(['import', file, target])
      assert.equal(outcome.code, 0, outcome.stderr)
      assertNoEscapes(outcome)
      await inspect(target, async (store) =>
        assert.deepEqual(await contentsOfSession(store, 'nightly-build'), expected),
      )
    }
    await original.close()
    const { document } = await runAll(
      () => ['import', file, '--as', 'a copy'],
      async (store) => {
        assert.deepEqual((await contentsOfSession(store, 'a copy')).verified.length, 3)
        assert.equal((await store.verifySession('a copy')).whole, true)
      },
    )
    assert.equal(document.sessionId, 'a copy')
  })

  it('copy copies a store to another, and nothing the second time', async () => {
    const directory = scratchDirectory()
    const to = `sqlite:${join(directory, 'copy.db')}`
    const first = await waymark(['copy', location, to])
    assert.equal(first.code, 0, first.stderr)
    assertNoEscapes(first)
    await inspect(to, async (store) => {
      assert.deepEqual(
        (await store.sessionsInfo()).map(({ id }) => id),
        SESSIONS,
      )
    })
    const again = jsonDocumentOf(await waymark(['copy', location, to, '--json', '--yes']))
    assert.deepEqual([again.checkpoints, again.documents], [0, 0])
    assert.ok(again.unchanged > 20)
    if (noTerminal) return
    for (const columns of WIDTHS) {
      const target = join(directory, `${columns}`)
      const seen = await seenOf(['copy', location, target], { columns })
      assert.equal(seen.code, 0, seen.text)
      assertFits(seen)
      assert.ok(existsSync(join(target, 'nightly-build')))
    }
  })

  it('copy copies one session with --session', async () => {
    const to = join(scratchDirectory(), 'copy')
    const outcome = await waymark(['copy', location, to, '--session', 'nightly-report'])
    assert.equal(outcome.code, 0, outcome.stderr)
    assert.deepEqual(
      readdirSync(to).filter((name) => !name.startsWith('.')),
      ['nightly-report'],
    )
  })

  it('copy finishes when its output pipes are closed', async () => {
    const target = scratchDirectory()
    const child = startWaymark(['copy', await manyCheckpoints(), target])
    child.stdout.destroy()
    child.stderr.destroy()
    assert.equal((await outcomeOf(child)).code, 0)
    const store = await openStore(target)
    assert.equal((await store.sessionInfo('many')).checkpointCount, CHECKPOINT_COUNT)
    await store.close()
  })

  it('copy refuses to replace a leased session before it copies anything', async () => {
    const target = scratchDirectory()
    const store = await openStore(target)
    await store.saveSession(makeSession('nightly-build'))
    await store.acquireSession('nightly-build', { owner: OWNER, ttlMs: 60_000 })
    const outcome = await waymark(['copy', location, target, '--yes'])
    assert.deepEqual([outcome.code, outcome.stdout], [1, ''])
    assert.ok(outcome.stderr.includes(OWNER), outcome.stderr)
    assert.deepEqual(await store.listSessions(), ['nightly-build'])
    await store.close()
  })

  it('copy does not create a missing source', async () => {
    const directory = scratchDirectory()
    const outcome = await waymark(['copy', join(directory, 'from'), join(directory, 'to')])
    assert.deepEqual([outcome.code, outcome.stdout], [2, ''])
    assert.deepEqual(readdirSync(directory), [])
  })

  it('recover restores the newest whole checkpoint, and moves damaged ones with --quarantine', async () => {
    const { text, document } = await runAll(
      () => ['recover', 'broken', '--quarantine', '--yes'],
      async (store, directory) => {
        assert.deepEqual(
          (await store.listCheckpointInfo('broken')).checkpoints.map(({ id }) => id),
          [ids.broken[1], ids.broken[0]],
        )
        assert.equal(readdirSync(join(directory, 'broken', 'damaged')).length, 1)
      },
    )
    assert.ok(text.includes(ids.broken[1]))
    assert.deepEqual([document.checkpointId, document.passedOver.map(({ id }) => id)], [ids.broken[1], [ids.broken[2]]])
  })

  it('label and pin refuse a leased session and name its owner', async () => {
    const copy = copyOfStore(location)
    const untouched = contentsOfStore(copy)
    for (const args of [
      ['label', 'owned/latest', 'mine'],
      ['pin', 'owned/latest'],
    ]) {
      const outcome = await waymark([...args, '--store', copy])
      assert.deepEqual([outcome.code, outcome.stdout], [1, ''], args.join(' '))
      assert.ok(outcome.stderr.includes(OWNER), outcome.stderr)
    }
    assert.deepEqual(contentsOfStore(copy), untouched)
  })

  it('a long task prints progress without a terminal, except with --json', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'build.waymark')
    const copy = copyOfStore(location)
    for (const args of [
      ['verify', 'nightly-build'],
      ['export', 'nightly-build', file],
      ['import', file, '--as', 'imported'],
      ['convert', 'gzip', 'nightly-build', '--yes'],
      ['prune', 'nightly-build', '--keep-last', '2', '--yes'],
    ]) {
      const outcome = await waymark([...args, '--store', copy])
      assert.equal(outcome.code, 0, outcome.stderr)
      assert.match(outcome.stderr, /\b(\d+) of \1\b/, args.join(' '))
      assertNoEscapes(outcome)
    }
    const copied = await waymark(['copy', copy, join(directory, 'copy')])
    assert.match(copied.stderr, /\b(\d+) of \1\b/)
    const silent = await waymark(['verify', 'nightly-build', '--store', copy, '--json'])
    assert.equal(silent.stderr, '')
  })

  it('copy prints few progress lines without a terminal', async () => {
    const outcome = await waymark(['copy', location, join(scratchDirectory(), 'copy')])
    const lines = outcome.stderr.split('\n').filter(Boolean)
    assert.ok(lines.length <= 12, outcome.stderr)
    const silent = await waymark(['copy', location, join(scratchDirectory(), 'copy'), '--json'])
    assert.equal(jsonDocumentOf(silent).sessions.length, SESSIONS.length)
  })
})
