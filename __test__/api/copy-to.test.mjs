import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'

import { assertAllWhole, assertWhole, createInSequence } from '../support/deltas.mjs'
import { contentsOfSession, fullStore } from '../support/full-session.mjs'
import { checkpointFiles } from '../support/original-format.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession, withoutTree } from '../support/sessions.mjs'
import { isLockFile } from '../support/snapshot.mjs'
import {
  CheckpointStore,
  OPTIONS,
  backends,
  checkpointOf,
  onEveryBackend,
  openStore,
  scratchDirectory,
  targetsFrom,
} from '../support/stores.mjs'

const NOTHING = { sessions: [], checkpoints: 0, documents: 0, unchanged: 0, sizeBytes: 0 }

const ALL = ['agents only', 'fork', 'full']

/** Item counts of that store: checkpoints of sessions and agents; sessions, trees, results and labels. */
const CHECKPOINTS = 4 + 3 + 1 + 1
const DOCUMENTS = 5 + 2

async function assertCopied(from, to, ids = ALL) {
  for (const id of ids) {
    const original = await contentsOfSession(from, id)
    assert.equal(original.whole, true)
    assert.deepEqual(await contentsOfSession(to, id), original)
  }
}

/** The bytes of all files below a directory by name, without empty files. */
function bytesBelow(base) {
  const entries = readdirSync(base, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !isLockFile(entry.name),
  )
  const paths = entries.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).toSorted()
  const files = paths.map((path) => [relative(base, path), readFileSync(path, 'latin1')])
  return Object.fromEntries(files.filter(([, bytes]) => bytes !== ''))
}

/** The target of a link; where links need privileges, the content of the file instead. */
function readLink(path) {
  return process.platform === 'win32' ? readFileSync(path, 'utf8') : readlinkSync(path)
}

describe('copyTo from a damaged checkpoint', () => {
  const DAMAGE = {
    truncated: (bytes) => bytes.subarray(0, bytes.length >> 1),
    changed: (bytes) => {
      const changed = Buffer.from(bytes)
      changed[bytes.indexOf('nightly') > 0 ? bytes.indexOf('nightly') : bytes.length >> 1] ^= 1
      return changed
    },
    'no JSON': () => Buffer.from('garbage'),
    empty: () => Buffer.alloc(0),
  }
  for (const [name, newTarget] of Object.entries(backends)) {
    for (const encoding of ['json', 'gzip', 'zstd', 'delta']) {
      it(`keeps the whole one in the target (${name}, ${encoding})`, async () => {
        for (const damage of Object.values(DAMAGE)) {
          const base = scratchDirectory()
          const [from, to] = [await openStore(base), await openStore(newTarget())]
          const session = makeSession('s', { name: 'nightly' })
          const { checkpointId, path } = await checkpointOf(from, session, { ...OPTIONS, encoding })
          await from.saveSession(session)
          await from.copyTo(to)
          for (const file of [path, join(base, 's', 'session.json')]) writeFileSync(file, damage(readFileSync(file)))
          const { checkpoints } = await from.copyTo(to)
          assert.equal(checkpoints, 0)
          assert.equal((await to.verifyCheckpoint('s', checkpointId)).whole, true)
          assert.equal((await to.loadSession('s')).id, 's')
        }
      })
    }
  }
})

for (const [source, newSource] of Object.entries(backends)) {
  for (const [target, newTarget] of Object.entries(targetsFrom(source))) {
    describe(`copyTo from ${source} to ${target}`, () => {
      /** A store of that kind filled by a copy, and an empty one. */
      const filledPair = async () => {
        const from = await openStore(newSource())
        await (await fullStore()).copyTo(from)
        return [from, await openStore(newTarget())]
      }

      it('copies everything, byte for byte', async () => {
        const [from, to] = await filledPair()
        const sizes = (await from.sessionsInfo()).map(({ sizeBytes }) => sizeBytes)
        const sizeBytes = sizes.reduce((sum, size) => sum + size)
        assert.deepEqual(await from.copyTo(to), {
          sessions: ALL,
          checkpoints: CHECKPOINTS,
          documents: DOCUMENTS,
          unchanged: 0,
          sizeBytes,
        })
        await assertCopied(from, to)
        assert.deepEqual(
          (await to.sessionsInfo()).map((info) => info.sizeBytes),
          sizes,
        )
        const { checkpoints } = await to.listCheckpointInfo('full')
        assert.deepEqual(
          checkpoints.map(({ label, pinned }) => [label, pinned]),
          [
            ['made true', undefined],
            [undefined, undefined],
            ['given "later"', true],
            ['made false', true],
          ],
        )
        const [, writer] = await to.listAgents('full')
        const [newest, oldest] = (await to.agent('full', writer).list()).checkpoints
        assert.deepEqual([...oldest.context], [0, 255, 7])
        assert.deepEqual([newest.status, newest.statusReason], ['halted', 'loop'])
      })

      it('copies a single session if one is named', async () => {
        const [from, to] = await filledPair()
        const { sessions, checkpoints, documents } = await from.copyTo(to, { sessionId: 'fork' })
        assert.deepEqual([sessions, checkpoints, documents], [['fork'], 1, 2])
        assert.deepEqual(
          (await to.sessionsInfo()).map(({ id }) => id),
          ['fork'],
        )
        await assertCopied(from, to, ['fork'])
        const agentsOnly = await from.copyTo(to, { sessionId: 'agents only' })
        assert.deepEqual([agentsOnly.sessions, agentsOnly.checkpoints], [['agents only'], 1])
        await assertCopied(from, to, ['agents only'])
      })

      it('is complete the first time: the second call copies nothing', async () => {
        const [from, to] = await filledPair()
        await from.copyTo(to)
        for (const _ of [1, 2]) {
          const again = { ...NOTHING, sessions: ALL, unchanged: CHECKPOINTS + DOCUMENTS }
          assert.deepEqual(await from.copyTo(to), again)
        }
        assert.deepEqual(await from.copyTo(to, { sessionId: 'fork' }), { ...NOTHING, sessions: ['fork'], unchanged: 3 })
        await assertCopied(from, to)
      })

      it('continues an interrupted copy', async () => {
        const [from, to] = await filledPair()
        await from.copyTo(to)
        const [newest, , pinned] = (await to.listCheckpointInfo('full')).checkpoints
        await to.deleteCheckpoint('full', newest.id)
        await to.deleteCheckpoint('full', pinned.id)
        await to.agent('full', 'writer').clear()
        await to.deleteSession('fork')
        const { checkpoints, documents, unchanged } = await from.copyTo(to)
        // The labels were deleted with the two checkpoints.
        assert.deepEqual([checkpoints, documents, unchanged], [5, 3, CHECKPOINTS + DOCUMENTS - 8])
        await assertCopied(from, to)
      })

      it('copies pins and keeps those that only the target has', async () => {
        const [from, to] = await filledPair()
        await from.copyTo(to)
        const [newest] = (await to.listCheckpointInfo('full')).checkpoints
        const pinsBefore = (await to.sessionInfo('full')).pinnedCount
        await to.pinCheckpoint('full', newest.id)
        await from.copyTo(to)
        assert.equal((await to.listCheckpointInfo('full')).checkpoints[0].pinned, true)
        assert.equal((await to.sessionInfo('full')).pinnedCount, pinsBefore + 1)
      })

      it('replaces what differs in the target and keeps what else is there', async () => {
        const [from, to] = await filledPair()
        await to.saveSession(makeSession('full', { name: 'another' }))
        await to.saveTaskTree('full', {})
        await to.saveTaskResult('full', 'a', 'another')
        await to.saveTaskResult('full', 'z', 'mine')
        const mine = await checkpointOf(to, makeSession('full', { name: 'another' }))
        await to.saveSession(makeSession('theirs'))
        const { sessions, documents, unchanged } = await from.copyTo(to)
        assert.deepEqual([sessions, documents, unchanged], [ALL, DOCUMENTS, 0])
        assert.deepEqual(await to.loadSession('full'), await from.loadSession('full'))
        assert.deepEqual(await to.loadTaskTree('full'), await from.loadTaskTree('full'))
        assert.deepEqual(await to.loadTaskResult('full', 'a'), await from.loadTaskResult('full', 'a'))
        assert.equal(await to.loadTaskResult('full', 'z'), 'mine')
        assert.equal((await to.listCheckpointInfo('full')).total, 5)
        assert.equal((await to.getLatestCheckpoint('full')).id, mine.checkpointId)
        assert.deepEqual(await to.listSessions(), ['fork', 'full', 'theirs'])
        assert.equal((await to.loadSession('theirs')).name, 'A session')
      })

      it('keeps the replaced version if the target keeps versions', async () => {
        const from = await openStore(newSource())
        const to = await openStore(newTarget(), { keepPrevious: 1 })
        await to.saveSession(makeSession('s', { name: 'before' }))
        await from.saveSession(makeSession('s', { name: 'after' }))
        await from.copyTo(to)
        await from.copyTo(to)
        assert.equal((await to.loadSession('s')).name, 'after')
        assert.equal((await to.loadSession('s', { version: -1 })).name, 'before')
      })

      it('gives a session that can be verified, restored, recovered and continued', async () => {
        const [from, to] = await filledPair()
        await from.copyTo(to)
        const [newest, , , oldest] = (await to.listCheckpointInfo('full')).checkpoints
        for (const { id } of [newest, oldest]) {
          assert.equal((await to.verifyCheckpoint('full', id)).whole, true)
          const options = { resetInProgressTasks: true, includeState: true, validateChecksum: true }
          const restored = await to.restoreCheckpoint('full', id, options)
          assert.equal(restored.success, true, restored.error)
          assert.deepEqual(restored.warnings, ['Reset in-progress task: a'])
          assert.deepEqual(restored.state.contextStore, { key: [1, 'é'] })
        }
        assert.equal((await to.recoverSession('full')).checkpointId, newest.id)
        const next = await checkpointOf(to, makeSession('full'))
        assert.equal((await to.getLatestCheckpoint('full')).id, next.checkpointId)
        assert.equal((await to.getCheckpointByLabel('full', 'given "later"')).id.startsWith('cp-'), true)
        const history = await to.history('full')
        assert.deepEqual(history.checkpoints.find(({ id }) => id === oldest.id).forks, ['fork'])
        assert.equal((await from.listCheckpointInfo('full')).total, 4, 'the source is left as it is')
      })

      it('copies all checkpoints, whatever the limits of the two stores', async () => {
        const from = await openStore(newSource(), { maxReadBytes: 4000 })
        for (let number = 0; number < 5; number += 1) await checkpointOf(from, makeSession('s'))
        await from.saveSession(makeSession('s', { metadata: { long: 'x'.repeat(9000) } }))
        const to = await openStore(newTarget(), { maxCheckpointsPerSession: 2, maxReadBytes: 100_000 })
        assert.equal((await from.copyTo(to)).checkpoints, 5)
        assert.equal((await to.listCheckpointInfo('s')).total, 5)
        assert.equal((await to.loadSession('s')).metadata.long.length, 9000)
        await checkpointOf(to, makeSession('s'))
        assert.equal((await to.listCheckpointInfo('s')).total, 2)
      })

      it('copies nothing from an empty store', async () => {
        const from = await openStore(newSource())
        const to = await openStore(newTarget())
        assert.deepEqual(await from.copyTo(to), NOTHING)
        await from.createSessionDirectory('empty')
        assert.deepEqual(await from.copyTo(to), NOTHING)
        assert.deepEqual(await from.copyTo(to, {}), NOTHING)
      })

      it('rejects a session that does not exist', async () => {
        const [from, to] = await filledPair()
        await from.createSessionDirectory('empty')
        for (const sessionId of ['unknown', 'empty']) {
          await assert.rejects(from.copyTo(to, { sessionId }), {
            code: 'WAYMARK_NOT_FOUND',
            message: `Session not found: ${sessionId}`,
          })
        }
        assert.deepEqual(await to.sessionsInfo(), [])
      })

      it('does not count labels of deleted checkpoints', async () => {
        const from = await openStore(newSource(), { maxCheckpointsPerSession: 1 })
        const to = await openStore(newTarget())
        const labelled = await checkpointOf(from, makeSession('s'))
        await from.labelCheckpoint('s', labelled.checkpointId, 'blue')
        // Retention removes the labelled checkpoint; its label stays in the document.
        const newest = await checkpointOf(from, makeSession('s'))
        await from.deleteCheckpoint('s', newest.checkpointId)
        assert.deepEqual(await from.copyTo(to), NOTHING)
        await assert.rejects(from.copyTo(to, { sessionId: 's' }), { code: 'WAYMARK_NOT_FOUND' })
      })

      it('may run twice at once while the source is written to', async () => {
        const [from, to] = await filledPair()
        const writing = Array.from({ length: 20 }, () => checkpointOf(from, makeSession('busy')))
        await Promise.all([from.copyTo(to), from.copyTo(to), from.copyTo(to), ...writing])
        await from.copyTo(to)
        await assertCopied(from, to, [...ALL, 'busy'])
      })

      it('may run in both directions at once', async () => {
        const [one, other] = [await openStore(newSource()), await openStore(newTarget())]
        for (let number = 0; number < 10; number += 1) {
          await checkpointOf(one, makeSession('s'))
          await checkpointOf(other, makeSession('s'))
        }
        await Promise.all([one.copyTo(other), other.copyTo(one)])
        assert.equal((await one.listCheckpointInfo('s')).total, 20)
        assert.deepEqual(await other.listCheckpointInfo('s'), await one.listCheckpointInfo('s'))
      })
    })
  }
}

/** The same location, spelt differently. */
function respelled(location) {
  return location.startsWith('postgres:') ? location.replace('postgres:', 'postgresql:') : join(location, 'x', '..')
}

for (const [target, newTarget] of Object.entries(backends)) {
  describe(`the target of copyTo (${target})`, () => {
    it('must be a CheckpointStore or of a subclass', async () => {
      const from = await openStore()
      await from.saveSession(makeSession('s'))
      const others = [
        [undefined, 'undefined'],
        [null, 'null'],
        [5, '5'],
        ['memory:', '"memory:"'],
        [{}, 'an object'],
        [[], 'an array'],
        [CheckpointStore, 'a function'],
        [from.checkpoints('s'), 'an object'],
        [from.agent('s', 'a'), 'an object'],
        [Object.create(CheckpointStore.prototype), 'an object'],
        [Object.create(from), 'an object'],
        [new Proxy(await openStore(newTarget()), {}), 'an object'],
        [Promise.resolve(from), 'an object'],
      ]
      for (const [other, shown] of others) {
        await assert.rejects(from.copyTo(other), ({ code, message }) => {
          assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', message)
          assert.ok(message.startsWith('other must be a CheckpointStore; got '), message)
          assert.ok(message.endsWith(shown) || shown === 'an object', message)
          return true
        })
      }
      class Extended extends CheckpointStore {}
      const extended = new Extended(newTarget())
      await extended.initialize()
      assert.deepEqual((await from.copyTo(extended)).sessions, ['s'])
      assert.deepEqual(await extended.loadSession('s'), withoutTree(makeSession('s')))
    })

    it('must be another location than the source', async () => {
      const location = newTarget()
      const store = await openStore(location)
      await store.saveSession(makeSession('s'))
      const itself = {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: 'other must be a store at another location than this one',
      }
      await assert.rejects(store.copyTo(store), itself)
      await assert.rejects(store.copyTo(store, { sessionId: 's' }), itself)
      if (location !== 'memory:') {
        await assert.rejects(store.copyTo(await openStore(location)), itself)
        await assert.rejects(store.copyTo(await openStore(respelled(location))), itself)
      }
      assert.deepEqual(await store.loadSession('s'), withoutTree(makeSession('s')))
    })

    it('must be open, as must the source', async () => {
      const from = await openStore()
      await from.saveSession(makeSession('s'))
      const other = new CheckpointStore(newTarget())
      await assert.rejects(from.copyTo(other), { code: 'WAYMARK_NOT_INITIALIZED' })
      await assert.rejects(other.copyTo(from), { code: 'WAYMARK_NOT_INITIALIZED' })
      await other.initialize()
      await other.close()
      await assert.rejects(from.copyTo(other), { code: 'WAYMARK_CLOSED' })
      await assert.rejects(other.copyTo(from), { code: 'WAYMARK_CLOSED' })
      await other.initialize()
      assert.deepEqual(await other.sessionsInfo(), [])
    })

    it('is not closed before the copy has ended', async () => {
      const from = await fullStore()
      const to = await openStore(newTarget())
      const copy = from.copyTo(to)
      await to.close()
      await to.initialize()
      await assertCopied(from, to)
      assert.deepEqual((await copy).sessions, ALL)
    })

    it('stays unchanged for invalid options and can then be closed', async () => {
      const from = await openStore()
      await from.saveSession(makeSession('s'))
      const to = await openStore(newTarget())
      for (const options of [null, 5, 's', []]) {
        await assert.rejects(from.copyTo(to, options), {
          code: 'WAYMARK_INVALID_ARGUMENT',
          message: /^options must be an object; got /,
        })
      }
      for (const sessionId of [null, 5, {}, ['s']]) {
        await assert.rejects(from.copyTo(to, { sessionId }), {
          code: 'WAYMARK_INVALID_ARGUMENT',
          message: /sessionId must be a string; got /,
        })
      }
      for (const sessionId of ['', '..', '../s', 'a/b']) {
        await assert.rejects(from.copyTo(to, { sessionId }), { code: 'WAYMARK_INVALID_ID' })
      }
      assert.deepEqual(await to.sessionsInfo(), [])
      await to.close()
    })
  })
}

describe('copyTo from files to files', () => {
  it('creates the same files with the same bytes and no others', async () => {
    const from = await fullStore()
    const to = await openStore()
    await from.copyTo(to)
    const expected = bytesBelow(from.getBaseDir())
    assert.ok(Object.keys(expected).length >= CHECKPOINTS + DOCUMENTS)
    assert.deepEqual(bytesBelow(to.getBaseDir()), expected)
  })

  it('creates or updates the link to the newest checkpoint', async () => {
    const from = await fullStore()
    const to = await openStore()
    const link = (id, store = to) => readLink(join(store.getBaseDir(), id, 'latest'))
    await from.copyTo(to)
    for (const id of ['full', 'fork']) {
      assert.equal(link(id), link(id, from))
      const { id: newest } = await to.getLatestCheckpoint(id)
      assert.ok(link(id).startsWith(`checkpoints/${newest}.json`), link(id))
    }
    assert.equal(existsSync(join(to.getBaseDir(), 'agents only', 'latest')), false)

    const mine = await checkpointOf(to, makeSession('full'))
    await from.copyTo(to)
    assert.equal(link('full'), `checkpoints/${mine.checkpointId}.json`)
    const theirs = await checkpointOf(from, makeSession('full'), { ...OPTIONS, compress: true })
    await from.copyTo(to)
    assert.equal(link('full'), `checkpoints/${theirs.checkpointId}.json.gz`)
  })

  it('copies damaged files as they are and repairs damage in the target', async () => {
    const from = await fullStore()
    const [bad] = checkpointFiles(from.getBaseDir(), 'full')
    truncateSync(bad, 100)
    writeFileSync(join(from.getBaseDir(), 'fork', 'session.json'), '{')
    const to = await openStore()
    await from.copyTo(to)
    assert.deepEqual(bytesBelow(to.getBaseDir()), bytesBelow(from.getBaseDir()))
    assert.equal((await to.verifySession('full')).whole, false)

    for (const file of checkpointFiles(to.getBaseDir(), 'fork')) truncateSync(file, 10)
    writeFileSync(join(to.getBaseDir(), 'full', 'task-tree.json'), '')
    const { checkpoints, documents } = await from.copyTo(to)
    assert.deepEqual([checkpoints, documents], [1, 1])
    assert.deepEqual(bytesBelow(to.getBaseDir()), bytesBelow(from.getBaseDir()))
  })

  it('continues after files of the target were lost', async () => {
    const from = await fullStore()
    const base = scratchDirectory()
    await from.copyTo(await openStore(base))
    const expected = bytesBelow(base)
    const lost = Object.keys(expected)
    for (let round = 2; round <= 5; round += 1) {
      const some = lost.filter((_, index) => index % round === 0)
      for (const name of some) rmSync(join(base, name))
      const { checkpoints, documents, unchanged } = await from.copyTo(await openStore(base))
      // A lost checkpoint loses its label, so the labels are copied again.
      const labels = checkpoints + documents - some.length
      assert.ok(labels === 0 || labels === 1, `${labels}`)
      assert.equal(unchanged, CHECKPOINTS + DOCUMENTS - some.length - labels)
      assert.deepEqual(bytesBelow(base), expected)
    }
  })

  it('continues after the copying process was killed', async () => {
    const from = await openStore(scratchDirectory(), { durability: 'relaxed', maxCheckpointsPerSession: Infinity })
    await from.saveSession(makeSession('s'))
    for (let number = 0; number < 150; number += 1) await checkpointOf(from, makeSession('s'))
    const base = scratchDirectory()
    await runNode(
      `import { existsSync, readdirSync } from 'node:fs'
      const [from, to] = [new CheckpointStore(process.argv[1]), new CheckpointStore(process.argv[2])]
      await Promise.all([from.initialize(), to.initialize()])
      from.copyTo(to)
      const directory = process.argv[2] + '/s/checkpoints'
      while (!existsSync(directory) || readdirSync(directory).length < 20) await new Promise(setImmediate)
      process.kill(process.pid, 'SIGKILL')`,
      { args: [from.getBaseDir(), base] },
    )
    const to = await openStore(base)
    const { total } = await to.listCheckpointInfo('s')
    assert.ok(total > 0)
    const { checkpoints, documents, unchanged } = await from.copyTo(to)
    assert.equal(checkpoints + documents + unchanged, 151)
    assert.deepEqual(bytesBelow(base), bytesBelow(from.getBaseDir()))
    assert.deepEqual(await to.listCheckpointInfo('s'), await from.listCheckpointInfo('s'))
    assert.equal((await to.verifySession('s')).whole, true)
  })

  it('gives the next checkpoint in the target an id after copied ones from the future', async () => {
    const from = await openStore()
    const { path, checkpointId } = await checkpointOf(from, makeSession('s'))
    const future = `cp-${(Date.now() + 86_400_000).toString(36)}-000001`
    // The original store's checksum does not cover the id.
    const { taskCount: _, agentCount: __, integrity: ___, ...checkpoint } = JSON.parse(readFileSync(path, 'utf8'))
    writeFileSync(path, JSON.stringify({ ...checkpoint, id: future }, null, 2))
    renameSync(path, path.replace(checkpointId, future))
    const to = await openStore()
    await checkpointOf(to, makeSession('s'))
    await from.copyTo(to)
    assert.equal((await to.getLatestCheckpoint('s')).id, future)
    const next = await checkpointOf(to, makeSession('s'))
    assert.equal((await to.getLatestCheckpoint('s')).id, next.checkpointId)
  })

  it('does not copy logs and quarantined files', async () => {
    const from = await openStore()
    await from.createSessionDirectory('s')
    await from.saveSession(makeSession('s'))
    await checkpointOf(from, makeSession('s'))
    truncateSync((await checkpointOf(from, makeSession('s'))).path, 5)
    await from.recoverSession('s', { quarantine: true })
    writeFileSync(join(from.getBaseDir(), 's', 'logs', 'today.log'), 'hello')
    const to = await openStore()
    await from.copyTo(to)
    const parts = new Set(Object.keys(bytesBelow(to.getBaseDir())).map((name) => name.split(/[/\\]/)[1]))
    parts.delete('latest')
    assert.deepEqual([...parts], ['checkpoints', 'session.json', 'task-tree.json'])
  })

  it('does not depend on file times', async () => {
    const from = await fullStore()
    for (const [index, file] of checkpointFiles(from.getBaseDir(), 'full').entries()) utimesSync(file, index, index)
    const to = await openStore()
    await from.copyTo(to)
    const newestFirst = (page) => page.checkpoints.map(({ id }) => id)
    assert.deepEqual(
      newestFirst(await to.listCheckpointInfo('full')),
      newestFirst(await from.listCheckpointInfo('full')),
    )
  })
})

describe('copyTo of a whole store', () => {
  // A directory with files is not a session unless it holds items of one.
  it('skips directories that hold no session', async () => {
    const from = await openStore()
    await from.saveSession(makeSession('s'))
    await from.createSessionDirectory('logs only')
    writeFileSync(join(from.getBaseDir(), 'logs only', 'logs', 'today.log'), 'hello')
    mkdirSync(join(from.getBaseDir(), 'notes'))
    writeFileSync(join(from.getBaseDir(), 'notes', 'readme.md'), 'hello')
    const to = await openStore()
    assert.deepEqual((await from.copyTo(to)).sessions, ['s'])
    assert.deepEqual(await to.listSessions(), ['s'])
  })

  // Foreign names are ordered by file time, so the copy must keep it.
  it('keeps the position of checkpoints with foreign names', async () => {
    const from = await openStore()
    const older = await checkpointOf(from, makeSession('s', { name: 'older' }))
    const newer = await checkpointOf(from, makeSession('s', { name: 'newer' }))
    const kept = join(dirname(older.path), 'before-the-move.json')
    copyFileSync(older.path, kept)
    utimesSync(kept, 1_000_000_000, 1_000_000_000)
    assert.equal((await from.getLatestCheckpoint('s')).id, newer.checkpointId)
    const to = await openStore()
    await from.copyTo(to)
    assert.deepEqual(
      (await to.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
      (await from.listCheckpointInfo('s')).checkpoints.map(({ id }) => id),
    )
    assert.equal((await to.recoverSession('s')).checkpointId, newer.checkpointId)
  })

  // The interrupted copy wrote the checkpoint but not the link.
  it('creates the link to the newest checkpoint after an interruption right before it', async () => {
    const from = await openStore()
    await checkpointOf(from, makeSession('s'))
    await from.saveSession(makeSession('s'))
    const base = scratchDirectory()
    await from.copyTo(await openStore(base))
    rmSync(join(base, 's', 'latest'))
    rmSync(join(base, 's', 'session.json'))
    const { documents, unchanged } = await from.copyTo(await openStore(base))
    assert.deepEqual([documents, unchanged], [1, 1])
    assert.ok(existsSync(join(base, 's', 'latest')))
  })
})

onEveryBackend('copyTo into an earlier copy', (open) => {
  // The pin may have been set in the target; removing it would expose the checkpoint to retention.
  it('keeps pins of the target that the source no longer has', async () => {
    const [from, to] = [await open(), await open()]
    const { checkpointId } = await checkpointOf(from, makeSession('s'))
    await from.pinCheckpoint('s', checkpointId)
    await from.copyTo(to)
    await from.unpinCheckpoint('s', checkpointId)
    await from.copyTo(to)
    const [[source], [copy]] = await Promise.all(
      [from, to].map(async (store) => (await store.listCheckpointInfo('s')).checkpoints),
    )
    assert.deepEqual([source.pinned, copy.pinned], [undefined, true])
    assert.deepEqual({ ...copy, pinned: undefined }, { ...source, pinned: undefined })
  })
})

onEveryBackend('copyTo a store that has diverged', (open) => {
  for (const encoding of ['zstd', 'json']) {
    it(`keeps its checkpoints readable after both were converted to ${encoding}`, async () => {
      const [source, target] = [await open(), await open()]
      await createInSequence(source, 5)
      await source.copyTo(target)
      for (const store of [source, target]) {
        await store.convert('s', encoding)
        await store.convert('s', 'delta')
      }
      await createInSequence(source, 5, { first: 10 })
      await createInSequence(target, 5, { first: 20 })
      await source.copyTo(target)
      assert.equal((await assertWhole(target)).length, 15)
      await target.copyTo(source)
      assert.equal((await assertWhole(source)).length, 15)
    })
  }

  it('stores a checkpoint once, whatever encodings both have', async () => {
    const [source, target] = [await open(), await open()]
    const created = await createInSequence(source, 3, { options: OPTIONS })
    await source.copyTo(target)
    for (const encoding of ['gzip', 'delta', 'zstd', 'json']) {
      await source.convert('s', encoding)
      await source.copyTo(target)
      await assertAllWhole(target, created)
    }
  })

  it('keeps the labels of checkpoints that only the target has', async () => {
    const [source, target] = [await open(), await open()]
    const [shared] = await createInSequence(source, 1)
    await source.labelCheckpoint('s', shared.checkpointId, 'shared')
    await source.copyTo(target)
    const [own] = await createInSequence(target, 1, { first: 1 })
    await target.labelCheckpoint('s', own.checkpointId, 'own')
    await source.labelCheckpoint('s', shared.checkpointId, 'changed')
    await source.copyTo(target)
    const { checkpoints } = await target.listCheckpointInfo('s')
    assert.deepEqual(
      checkpoints.map(({ label }) => label),
      ['own', 'changed'],
    )
  })
})
