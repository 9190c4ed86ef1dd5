import assert from 'node:assert/strict'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'

import { runNode } from '../support/processes.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

const isWindows = process.platform === 'win32'

describe('the base directory', () => {
  it('has the layout of the original store and nothing else', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.createSessionDirectory('s')
    await store.saveSession(makeSession('s'))
    await store.saveTaskTree('s', makeTree())
    await store.saveTaskResult('s', 'task-1', 1)
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    await store.restoreCheckpoint({ checkpointId })
    const tree = (directory) => readdirSync(join(base, directory)).toSorted()
    assert.deepEqual(tree(''), ['s'])
    assert.deepEqual(tree('s'), ['.lock', 'checkpoints', 'latest', 'logs', 'results', 'session.json', 'task-tree.json'])
    assert.equal(readlinkSync(join(base, 's/latest')), `checkpoints/${checkpointId}.json`)
    assert.deepEqual(tree('s/checkpoints'), ['.names', `${checkpointId}.json`])
    assert.equal(statSync(join(base, 's/checkpoints/.names')).size, 0)
    assert.deepEqual(tree('s/results'), ['task-1.json'])
    assert.deepEqual(tree('s/logs'), [])
  })

  it('is accessible by its owner only', { skip: isWindows && 'Windows has no modes' }, async () => {
    const base = join(scratchDirectory(), 'base')
    const store = await openStore(base)
    await store.createSessionDirectory('s')
    const paths = [
      (await store.saveSession(makeSession('s'))).path,
      (await store.saveTaskResult('s', 't', 1)).path,
      (await checkpointOf(store, makeSession('s'))).path,
    ]
    const mode = (path) => (statSync(path).mode & 0o777).toString(8)
    for (const path of paths) assert.equal(mode(path), '600')
    for (const path of [base, join(base, 's'), join(base, 's', 'logs'), dirname(paths[2])])
      assert.equal(mode(path), '700')
  })

  it('is created again by the next write if it was removed', async () => {
    const base = join(scratchDirectory(), 'base')
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    rmSync(base, { recursive: true })
    assert.equal(await store.loadSession('s'), null)
    assert.deepEqual(await store.listSessions(), [])
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    assert.equal((await checkpointOf(store, makeSession('s'))).success, true)
  })

  it('keeps the order of its checkpoints when it is copied, whatever the file times', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = []
    for (let index = 0; index < 5; index += 1) made.push((await checkpointOf(store, makeSession('s'))).checkpointId)
    const copy = scratchDirectory()
    cpSync(base, copy, { recursive: true })
    for (const [index, id] of made.entries()) {
      utimesSync(join(copy, 's', 'checkpoints', `${id}.json`), 2_000_000 - index * 1000, 2_000_000 - index * 1000)
    }
    const { checkpoints } = await (await openStore(copy)).listCheckpoints('s')
    assert.deepEqual(
      checkpoints.map((checkpoint) => checkpoint.id),
      made.toReversed(),
    )
  })

  it('that is a copied session directory is restored as its own session', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    cpSync(join(base, 's'), join(base, 'copy "two"'), { recursive: true })
    const ambiguous = await store.restoreCheckpoint({ checkpointId })
    assert.equal(ambiguous.code, 'WAYMARK_AMBIGUOUS')
    const restored = await store.restoreCheckpoint({ checkpointId, sessionId: 'copy "two"', validateChecksum: true })
    assert.deepEqual([restored.success, restored.sessionId], [true, 'copy "two"'])
    assert.equal((await store.loadSession('copy "two"')).id, 'copy "two"')
    assert.equal(await store.loadSession('s'), null)
  })

  it('still opens after a session could not be removed completely', { skip: isWindows && 'no modes' }, async () => {
    const base = scratchDirectory()
    chmodSync(base, 0o777)
    const source = (step) => `
      if (process.getuid() === 0) process.setuid(65534)
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      ${step}
    `
    const made = await runNode(source(`for (const id of ['s', 'other']) await store.saveTaskResult(id, 't', 1)`))
    assert.equal(made.code, 0, made.stderr)
    mkdirSync(join(base, 's', 'logs', 'of another user'), { recursive: true })
    writeFileSync(join(base, 's', 'logs', 'of another user', 'log'), '')
    chmodSync(join(base, 's', 'logs', 'of another user'), 0o555)
    const report = `
      const { success, warnings } = await store.deleteSession('s')
      console.log(success, warnings?.length ?? 0, await store.loadTaskResult('s', 't'), await store.loadTaskResult('other', 't'))
    `
    const first = await runNode(source(report))
    assert.match(first.stdout, /^true [01] null 1\n$/)
    assert.match((await runNode(source(report))).stdout, /^true 0 null 1\n$/)
  })

  it('may hold foreign files, which are neither listed nor changed', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 1)
    await checkpointOf(store, makeSession('s'))
    const foreign = [join(base, 'stray.txt'), join(base, 's', 'notes.md'), join(base, 's', 'checkpoints', 'README')]
    for (const path of foreign) writeFileSync(path, 'mine')
    mkdirSync(join(base, '.git'))
    await checkpointOf(store, makeSession('s'))
    await store.saveSession(makeSession('s'))
    assert.deepEqual(await store.listSessions(), ['s'])
    assert.equal((await store.listCheckpoints('s')).total, 1)
    assert.equal((await store.deleteSession('stray.txt')).success, false)
    for (const path of foreign) assert.equal(readFileSync(path, 'utf8'), 'mine')
    assert.ok(existsSync(join(base, '.git')))
  })
})

describe('damaged files', () => {
  async function damagedStore() {
    const base = scratchDirectory()
    const store = await openStore(base)
    const directory = join(base, 's', 'checkpoints')
    const good = await checkpointOf(store, makeSession('s'))
    const damage = {
      'cp-1-000001.json': '{"id": "cut off',
      'cp-1-000002.json.gz': 'not gzip',
      'cp-1-000003.json.gz': gzipSync('{"whole":').subarray(0, 12),
      'cp-1-000004.json': '',
      'cp-1-000005.json': '[]',
      'cp-1-000006.json': 'null',
      'cp-1-000007.json': Buffer.from([0x7b, 0xff, 0x7d]),
    }
    for (const [name, bytes] of Object.entries(damage)) writeFileSync(join(directory, name), bytes)
    mkdirSync(join(directory, 'cp-1-000008.json'))
    return { store, directory, good: good.checkpointId, names: [...Object.keys(damage), 'cp-1-000008.json'] }
  }

  it('are left out of lists, reported and counted', async () => {
    const { store, good, names, directory } = await damagedStore()
    const { checkpoints, total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual(
      checkpoints.map((checkpoint) => checkpoint.id),
      [good],
    )
    assert.equal(total, 1 + names.length)
    assert.deepEqual(
      damaged.map((entry) => entry.path).toSorted(),
      names.map((name) => join(directory, name)),
    )
    for (const entry of damaged) {
      assert.ok(entry.error.includes(entry.path), entry.error)
      assert.ok(names.includes(`${entry.id}.json`) || names.includes(`${entry.id}.json.gz`))
      assert.match(entry.code, /^WAYMARK_(CORRUPT|IO)$/)
    }
    assert.equal((await checkpointOf(store, makeSession('s'))).success, true)
  })

  it('reject methods that read one item, with the file name', async () => {
    const { store, names, directory } = await damagedStore()
    for (const name of names) {
      const id = name.replace(/\.json(\.gz)?$/, '')
      await assert.rejects(store.getCheckpoint('s', id), (error) => {
        assert.match(error.code, /^WAYMARK_(CORRUPT|IO)$/)
        assert.ok(error.message.includes(join(directory, name)), error.message)
        return true
      })
      const restored = await store.restoreCheckpoint({ checkpointId: id, sessionId: 's' })
      assert.equal(restored.success, false)
    }
    assert.equal(await store.loadSession('s'), null, 'nothing was restored')
  })

  it('of a session, tree or result reject with the parser error as cause', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const paths = [
      (await store.saveSession(makeSession('s'))).path,
      (await store.saveTaskTree('s', makeTree())).path,
      (await store.saveTaskResult('s', 't', { a: 1 })).path,
    ]
    for (const path of paths) writeFileSync(path, '{ nonsense')
    const calls = [() => store.loadSession('s'), () => store.loadTaskTree('s'), () => store.loadTaskResult('s', 't')]
    for (const [index, call] of calls.entries()) {
      await assert.rejects(call, (error) => {
        assert.equal(error.code, 'WAYMARK_CORRUPT')
        assert.ok(error.message.startsWith(`${paths[index]} is damaged: `), error.message)
        assert.ok(error.cause instanceof SyntaxError)
        return true
      })
    }
  })

  it('of the newest checkpoint are reported', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s'))
    const { path } = await checkpointOf(store, makeSession('s'))
    writeFileSync(path, '')
    await assert.rejects(store.getLatestCheckpoint('s'), { code: 'WAYMARK_CORRUPT' })
  })

  it('with a changed byte fail validation and nothing is written', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (const [from, to] of [
      ['"Do task-1"', '"Do task-7"'],
      ['"A session"', '"B session"'],
      ['"context"', '"contexT"'],
      ['"note"', '"nota"'],
    ]) {
      const { checkpointId, path } = await checkpointOf(
        store,
        makeSession('s'),
        { ...OPTIONS, metadata: { key: 'note' } },
        {},
        { key: 'context' },
      )
      const text = readFileSync(path, 'utf8')
      assert.ok(text.includes(from))
      writeFileSync(path, text.replace(from, to))
      const result = await store.restoreCheckpoint({ checkpointId, validateChecksum: true })
      assert.equal(result.success, false)
      assert.equal(result.error, 'Checkpoint checksum validation failed - data may be corrupted')
      assert.equal(result.code, 'WAYMARK_CHECKSUM_MISMATCH')
    }
    assert.equal(await store.loadSession('s'), null)
    assert.equal(await store.loadTaskTree('s'), null)
  })

  it('do not include files with other white space or escapes', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId, path } = await checkpointOf(
      store,
      makeSession('s', { description: 'ü "x" /', 7: 'a numbered member' }),
      OPTIONS,
      {},
      { é: 1 },
    )
    const value = JSON.parse(readFileSync(path, 'utf8'))
    const escaped = JSON.stringify(value, null, '\t').replace(
      /[^\x20-\x7e\n\t]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    const spellings = [
      JSON.stringify(value),
      JSON.stringify(value, null, 7),
      escaped,
      `\n ${escaped.replaceAll('/', '\\/')} \n`,
    ]
    for (const text of spellings) {
      writeFileSync(path, text)
      const result = await store.restoreCheckpoint({ checkpointId, validateChecksum: true })
      assert.equal(result.success, true, result.error)
      assert.equal((await store.loadSession('s')).description, 'ü "x" /')
    }
  })

  it('that inflate beyond the limit are rejected with advice', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { maxReadBytes: 100_000 })
    const session = makeSession('s', { metadata: { long: 'x'.repeat(200_000) } })
    const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress: true })
    await assert.rejects(store.getCheckpoint('s', checkpointId), {
      code: 'WAYMARK_TOO_LARGE',
      message: /has 100000 bytes or more; the limit is 100000\. If you trust it, raise maxReadBytes$/,
    })
    assert.ok(await (await openStore(base)).getCheckpoint('s', checkpointId))
  })
})

describe('a system error', () => {
  it('is reported with file and reason and leaves no temporary file', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    mkdirSync(join(base, 's', 'session.json', 'in the way'), { recursive: true })
    const result = await store.saveSession(makeSession('s'))
    assert.equal(result.success, false)
    assert.equal(result.code, 'WAYMARK_IO')
    assert.ok(result.error.includes(join(base, 's', 'session.json')), result.error)
    assert.equal(result.cause.code, 'EISDIR')
    assert.deepEqual(readdirSync(join(base, 's')).toSorted(), ['.lock', 'session.json'])
  })

  it('rejects createSessionDirectory', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    writeFileSync(join(base, 's'), 'a file')
    await assert.rejects(store.createSessionDirectory('s'), { code: 'WAYMARK_IO' })
    assert.equal((await store.saveTaskResult('s', 't', 1)).code, 'WAYMARK_IO')
  })

  it('names EACCES without permission', { skip: isWindows && 'Windows has no modes' }, async () => {
    const base = scratchDirectory()
    chmodSync(base, 0o555)
    const { stdout } = await runNode(`
      if (process.getuid() === 0) process.setuid(65534)
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      console.log((await store.saveTaskResult('s', 't', 1)).error)
      await store.createSessionDirectory('s').catch((error) => console.log(error.code, error.cause.code))
    `)
    assert.match(stdout, /^Could not create directory .*: EACCES: .*\nWAYMARK_IO EACCES\n$/)
  })
})

describe('other programs', () => {
  it('can read a compressed checkpoint with gunzip alone', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true })
    assert.equal(JSON.parse(gunzipSync(readFileSync(path))).sessionId, 's')
  })
})
