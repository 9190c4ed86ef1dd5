import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { WIDTHS, assertFits, assertNoEscapes, jsonDocumentOf } from './support/cli-output.mjs'
import { CONCURRENT, outcomeOf, startWaymark, waymark } from './support/command.mjs'
import { OWNER, SESSIONS, contentsOfStore, copyOfStore, exampleStore } from './support/example-store.mjs'
import { contentsOfSession } from './support/full-session.mjs'
import { CHECKPOINT_COUNT, manyCheckpoints } from './support/large-stores.mjs'
import { makeSession } from './support/sessions.mjs'
import { openStore, scratchDirectory } from './support/stores.mjs'
import { noTerminal, seenOf } from './support/terminal.mjs'

describe('a command that adds something', CONCURRENT, () => {
  let location
  let ids

  before(async () => {
    ;({ location, ids } = await exampleStore())
  })

  /** Runs something that must succeed, in every way in which it can be looked at, each on a store of its own. */
  const done = async (args, isDone) => {
    const plain = copyOfStore(location)
    const outcome = await waymark([...args(plain), '--store', plain])
    assert.equal(outcome.code, 0, outcome.stderr)
    assertNoEscapes(outcome)
    assert.notEqual(outcome.stdout, '', 'it says what it did')
    await looked(plain, isDone)

    const machine = copyOfStore(location)
    const answered = await waymark([...args(machine), '--store', machine, '--json'])
    assert.equal(answered.code, 0, answered.stderr)
    const document = jsonDocumentOf(answered)
    await looked(machine, isDone)

    if (noTerminal) return { text: outcome.stdout, document }
    for (const columns of WIDTHS) {
      const screen = copyOfStore(location)
      const seen = await seenOf([...args(screen), '--store', screen], { columns })
      assert.equal(seen.code, 0, seen.text)
      assertFits(seen)
      await looked(screen, isDone)
    }
    return { text: outcome.stdout, document }
  }

  const looked = async (place, isDone) => {
    const store = await openStore(place)
    await isDone(store, place)
    await store.close()
  }

  it('forks a session from a checkpoint', async () => {
    const { text, document } = await done(
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

  it('sends tasks back to pending in a fork that asks for it', async () => {
    await done(
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

  it('gives a checkpoint a label, and takes it away', async () => {
    await done(
      () => ['label', 'nightly-build/latest', 'the last one'],
      async (store) => assert.equal(await labelOf(store, ids.build[7]), 'the last one'),
    )
    await done(
      () => ['label', 'nightly-build/green', '--remove'],
      async (store) => assert.equal(await labelOf(store, ids.build[2]), undefined),
    )
  })

  const pinnedIn = async (store) =>
    (await store.listCheckpointInfo('nightly-build')).checkpoints.filter(({ pinned }) => pinned).map(({ id }) => id)

  it('pins a checkpoint, and lets it go', async () => {
    await done(
      () => ['pin', 'nightly-build/latest~1'],
      async (store) => assert.deepEqual(await pinnedIn(store), [ids.build[6], ids.build[2], ids.build[0]]),
    )
    await done(
      () => ['pin', 'nightly-build/green', '--off'],
      async (store) => assert.deepEqual(await pinnedIn(store), [ids.build[0]]),
    )
  })

  it('exports a session into a file', async () => {
    const { document } = await done(
      (place) => ['export', 'nightly-build', join(place, '..', 'build.waymark')],
      (_, place) => assert.ok(statSync(join(place, '..', 'build.waymark')).size > 1000),
    )
    assert.equal(document.sessionId, 'nightly-build')
    assert.equal(document.checkpoints, 11)
  })

  it('imports what was exported, under its own name into a new place or under another one', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'build.waymark')
    assert.equal((await waymark(['export', 'nightly-build', file, location])).code, 0)
    const original = await openStore(location)
    const expected = await contentsOfSession(original, 'nightly-build')
    for (const place of [join(directory, 'new'), `sqlite:${join(directory, 'new.db')}`]) {
      const outcome = await waymark(['import', file, place])
      assert.equal(outcome.code, 0, outcome.stderr)
      assertNoEscapes(outcome)
      await looked(place, async (store) => assert.deepEqual(await contentsOfSession(store, 'nightly-build'), expected))
    }
    await original.close()
    const { document } = await done(
      () => ['import', file, '--as', 'a copy'],
      async (store) => {
        assert.deepEqual((await contentsOfSession(store, 'a copy')).verified.length, 3)
        assert.equal((await store.verifySession('a copy')).whole, true)
      },
    )
    assert.equal(document.sessionId, 'a copy')
  })

  it('copies a store into another place, and again without doing anything', async () => {
    const directory = scratchDirectory()
    const to = `sqlite:${join(directory, 'copy.db')}`
    const first = await waymark(['copy', location, to])
    assert.equal(first.code, 0, first.stderr)
    assertNoEscapes(first)
    await looked(to, async (store) => {
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

  it('copies one session alone', async () => {
    const to = join(scratchDirectory(), 'copy')
    const outcome = await waymark(['copy', location, to, '--session', 'nightly-report'])
    assert.equal(outcome.code, 0, outcome.stderr)
    assert.deepEqual(
      readdirSync(to).filter((name) => !name.startsWith('.')),
      ['nightly-report'],
    )
  })

  it('copies to the end when nobody listens any more', async () => {
    const target = scratchDirectory()
    const child = startWaymark(['copy', await manyCheckpoints(), target])
    child.stdout.destroy()
    child.stderr.destroy()
    assert.equal((await outcomeOf(child)).code, 0)
    const store = await openStore(target)
    assert.equal((await store.sessionInfo('many')).checkpointCount, CHECKPOINT_COUNT)
    await store.close()
  })

  it('copies nothing over a session that somebody owns, nor anything else before that', async () => {
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

  it('does not make the place that it should copy from', async () => {
    const directory = scratchDirectory()
    const outcome = await waymark(['copy', join(directory, 'from'), join(directory, 'to')])
    assert.deepEqual([outcome.code, outcome.stdout], [2, ''])
    assert.deepEqual(readdirSync(directory), [])
  })

  it('recovers a session past what is damaged, and puts that aside if it is asked to', async () => {
    const { text, document } = await done(
      () => ['recover', 'broken', '--quarantine', '--yes'],
      async (store, place) => {
        assert.deepEqual(
          (await store.listCheckpointInfo('broken')).checkpoints.map(({ id }) => id),
          [ids.broken[1], ids.broken[0]],
        )
        assert.equal(readdirSync(join(place, 'broken', 'damaged')).length, 1)
      },
    )
    assert.ok(text.includes(ids.broken[1]))
    assert.deepEqual([document.checkpointId, document.passedOver.map(({ id }) => id)], [ids.broken[1], [ids.broken[2]]])
  })

  it('does not touch what somebody else owns, and says who', async () => {
    const place = copyOfStore(location)
    const untouched = contentsOfStore(place)
    for (const args of [
      ['label', 'owned/latest', 'mine'],
      ['pin', 'owned/latest'],
    ]) {
      const outcome = await waymark([...args, '--store', place])
      assert.deepEqual([outcome.code, outcome.stdout], [1, ''], args.join(' '))
      assert.ok(outcome.stderr.includes(OWNER), outcome.stderr)
    }
    assert.deepEqual(contentsOfStore(place), untouched)
  })

  it('says how far long work is where there is no terminal, unless it is asked for a document', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'build.waymark')
    const place = copyOfStore(location)
    for (const args of [
      ['verify', 'nightly-build'],
      ['export', 'nightly-build', file],
      ['import', file, '--as', 'imported'],
      ['convert', 'gzip', 'nightly-build', '--yes'],
      ['prune', 'nightly-build', '--keep-last', '2', '--yes'],
    ]) {
      const outcome = await waymark([...args, '--store', place])
      assert.equal(outcome.code, 0, outcome.stderr)
      assert.match(outcome.stderr, /\b(\d+) of \1\b/, args.join(' '))
      assertNoEscapes(outcome)
    }
    const copied = await waymark(['copy', place, join(directory, 'copy')])
    assert.match(copied.stderr, /\b(\d+) of \1\b/)
    const silent = await waymark(['verify', 'nightly-build', '--store', place, '--json'])
    assert.equal(silent.stderr, '')
  })

  it('says how far it is in plain lines where there is no terminal, and few of them', async () => {
    const outcome = await waymark(['copy', location, join(scratchDirectory(), 'copy')])
    const lines = outcome.stderr.split('\n').filter(Boolean)
    assert.ok(lines.length <= 12, outcome.stderr)
    const silent = await waymark(['copy', location, join(scratchDirectory(), 'copy'), '--json'])
    assert.equal(jsonDocumentOf(silent).sessions.length, SESSIONS.length)
  })
})
