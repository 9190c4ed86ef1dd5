import assert from 'node:assert/strict'
import { readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'

import { HEAD, archiveOf, archiveText, bombOf, zstdOf } from '../support/export-files.mjs'
import { INVALID_IDS, NOT_STRINGS } from '../support/invalid-values.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const SESSION = [{ name: 'session.json' }, '{"id":"s"}']
const GOOD = [SESSION, [{ name: 'checkpoints/x.json', pinned: true, madeAt: 5 }, '{}']]

function fileOf(bytes) {
  const file = join(scratchDirectory(), 'archive.zst')
  writeFileSync(file, bytes)
  return file
}

/** Imports a file that must be rejected, and asserts that nothing was stored. */
async function assertRefused(store, file, expected, options = undefined) {
  await assert.rejects(store.importSession(file, options), (error) => {
    assert.equal(error.code, expected.code ?? 'WAYMARK_CORRUPT', error.message)
    assert.ok(error.message.includes(file), error.message)
    if (expected.message) assert.match(error.message, expected.message)
    return true
  })
  assert.deepEqual(await store.sessionsInfo(), [])
  const base = store.getBaseDir()
  if (!base.includes(':')) assert.deepEqual(readdirSync(base), [])
}

async function exported() {
  const store = await openStore()
  await store.saveSession(makeSession('s'))
  await checkpointOf(store, makeSession('s'))
  const file = join(scratchDirectory(), 's.zst')
  await store.exportSession('s', file)
  return readFileSync(file)
}

onEveryBackend('importSession of a damaged export file', (open) => {
  it('rejects it wherever it ends', async () => {
    const whole = await exported()
    const store = await open()
    const lengths = new Set([0, 1, 3, 4, 5, whole.length - 1, whole.length - 4, whole.length - 5])
    for (let length = 7; length < whole.length; length += Math.ceil(whole.length / 40)) lengths.add(length)
    for (const length of lengths) await assertRefused(store, fileOf(whole.subarray(0, length)), {})
    await store.importSession(fileOf(whole))
  })

  it('rejects it whichever byte was changed', async () => {
    const whole = await exported()
    const store = await open()
    for (let at = 6; at < whole.length; at += Math.ceil(whole.length / 60)) {
      const changed = Buffer.from(whole)
      changed[at] ^= 0x55
      await assertRefused(store, fileOf(changed), {})
    }
    await store.importSession(fileOf(whole))
  })

  it('rejects it if anything follows its end', async () => {
    const whole = await exported()
    const store = await open()
    for (const more of [Buffer.from([0]), Buffer.from('text'), whole]) {
      await assertRefused(store, fileOf(Buffer.concat([whole, more])), { message: /something follows its end/ })
    }
  })
})

onEveryBackend('importSession of another file', (open) => {
  it('rejects it', async () => {
    const store = await open()
    const text = archiveText(GOOD)
    const others = {
      'an empty file': Buffer.alloc(0),
      'a text': Buffer.from('hello'),
      'a gzip': gzipSync(text),
      'an archive that is not compressed': text,
      'another stream': zstdOf(Buffer.from('hello\n')),
      'an empty stream': zstdOf(Buffer.alloc(0)),
      'another JSON': zstdOf(Buffer.from('{"waymark":"database","version":1}\n')),
    }
    for (const bytes of Object.values(others)) {
      await assertRefused(store, fileOf(bytes), { message: /is no archive of a session/ })
    }
  })

  it('rejects a missing file or a directory by name', async () => {
    const store = await open()
    const directory = scratchDirectory()
    const missing = join(directory, 'missing.zst')
    await assertRefused(store, missing, { code: 'WAYMARK_IO', message: /ENOENT/ })
    await assertRefused(store, directory, { message: /it is not a file/ })
    await assert.rejects(store.importSession(missing), (error) => error.cause.code === 'ENOENT')
  })

  it('rejects a newer version', async () => {
    const store = await open()
    const file = fileOf(archiveOf(GOOD, { head: { ...HEAD, version: 2 } }))
    await assertRefused(store, file, { code: 'WAYMARK_NEWER_VERSION', message: /newer version \(archive 2\)/ })
    for (const version of [0, -1, 1.5, '1', null, undefined]) {
      await assertRefused(store, fileOf(archiveOf(GOOD, { head: { ...HEAD, version } })), { message: /no version/ })
    }
  })
})

onEveryBackend('importSession of a crafted export file', (open) => {
  it('accepts a valid one', async () => {
    const store = await open()
    const { sessionId, checkpoints, documents, bytes } = await store.importSession(fileOf(archiveOf(GOOD)))
    assert.deepEqual([sessionId, checkpoints, documents, bytes], ['s', 1, 1, 12])
  })

  it('rejects item names that lead elsewhere', async () => {
    const store = await open()
    const names = [
      '',
      '.',
      '..',
      '../../escaped.json',
      '/etc/passwd',
      'session',
      'session.0.json',
      'session.01.json',
      'labels.1.json',
      'latest',
      '.lock',
      'logs/today.log',
      'damaged/x.json',
      'checkpoints/x',
      'checkpoints/x.pin',
      'checkpoints/../session.json',
      'checkpoints/../../escaped.json',
      'checkpoints/a/b.json',
      'checkpoints\\x.json',
      'agents/x.json',
      'agents/../x.json',
      'agents/a/b/x.json',
      'results/../x.json',
      'results/CON.json',
      'results/x\u0000.json',
      `results/${'x'.repeat(201)}.json`,
    ]
    for (const name of names) {
      const file = fileOf(archiveOf([SESSION, [{ name }, '{}']]))
      await assertRefused(store, file, { message: /which is nothing that a session has/ })
    }
  })

  it('rejects an invalid session id, but accepts another one in its place', async () => {
    const store = await open()
    for (const sessionId of INVALID_IDS.filter((id) => !/[\ud800-\udfff]/.test(id) && id !== 'C:\\x')) {
      await assertRefused(store, fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId } })), {})
    }
    for (const sessionId of [undefined, null, 5, {}]) {
      await assertRefused(store, fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId } })), {})
    }
    const file = fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId: '../s' } }))
    assert.equal((await store.importSession(file, { as: 'other' })).sessionId, 'other')
  })

  it('rejects items that are duplicated, unordered or misplaced', async () => {
    const store = await open()
    const twice = [SESSION, [{ name: 'results/t.json' }, '1'], [{ name: 'results/t.json' }, '2']]
    await assertRefused(store, fileOf(archiveOf(twice)), { message: /"results\/t\.json" twice/ })
    const gap = [SESSION, [{ name: 'session.2.json' }, '{}']]
    await assertRefused(store, fileOf(archiveOf(gap)), { message: /without the version after it/ })
    const pinned = [[{ name: 'session.json', pinned: true }, '{}']]
    await assertRefused(store, fileOf(archiveOf(pinned)), { message: /only checkpoints have/ })
    const timed = [[{ name: 'checkpoints/cp-1-000000.json', madeAt: 5 }, '{}']]
    await assertRefused(store, fileOf(archiveOf(timed)), { message: /another time than its own/ })
  })

  it('rejects manifest lines that are wrong or incomplete', async () => {
    const store = await open()
    const lying = [
      archiveOf([[{ name: 'session.json', size: 1 }, '{"id":"s"}']]),
      archiveOf([[{ name: 'session.json', size: 99 }, '{"id":"s"}']]),
      archiveOf([[{ name: 'session.json', size: 2 ** 50 }, '{}']]),
      archiveOf([[{ name: 'session.json', size: -1 }, '{}']]),
      archiveOf([[{ name: 'session.json', size: '2' }, '{}']]),
      archiveOf([[{ name: 7 }, '{}']]),
      archiveOf([[{ name: 'checkpoints/x.json', pinned: 'yes' }, '{}']]),
      archiveOf([[{ name: 'checkpoints/x.json', madeAt: -5 }, '{}']]),
      archiveOf([[{ name: 'checkpoints/x.json', madeAt: 1e300 }, '{}']]),
      archiveOf(GOOD, { end: { items: 3 } }),
      archiveOf(GOOD, { end: { bytes: 13 } }),
      archiveOf(GOOD, { end: { sha256: '0'.repeat(64) } }),
      archiveOf(GOOD, { end: { sha256: 5 } }),
      archiveOf([]),
      archiveOf(GOOD, { head: { ...HEAD, items: undefined } }),
      zstdOf(Buffer.from(`${JSON.stringify(HEAD)}\n[]\n`)),
      zstdOf(Buffer.concat([Buffer.from(`${JSON.stringify(HEAD)}\n`), Buffer.from([0xff, 0xfe, 10])])),
    ]
    for (const [index, bytes] of lying.entries()) {
      // An impossible length is rejected before the content is read.
      const code = index === 2 ? 'WAYMARK_TOO_LARGE' : 'WAYMARK_CORRUPT'
      const file = fileOf(bytes)
      await assert.rejects(store.importSession(file), { code }, `archive ${index}`)
      assert.deepEqual(await store.sessionsInfo(), [])
    }
  })

  it('rejects items beyond maxReadBytes', async () => {
    const store = await open({ maxReadBytes: 5 })
    await assertRefused(store, fileOf(archiveOf(GOOD)), { code: 'WAYMARK_TOO_LARGE', message: /raise maxReadBytes/ })
  })
})

describe('importSession of a decompression bomb', () => {
  const megabytes = 20_000
  const entry = '{"name":"session.json","size":10}\n'
  const bombs = {
    'in the place of a line': `${JSON.stringify(HEAD)}\n`,
    'behind an item that says it is short': `${JSON.stringify(HEAD)}\n${entry}`,
    'behind the end': archiveText(GOOD).toString(),
  }
  for (const [place, text] of Object.entries(bombs)) {
    it(`rejects it at once: ${place}`, async () => {
      const file = fileOf(bombOf(text, megabytes))
      const store = await openStore()
      const before = process.memoryUsage.rss()
      const start = performance.now()
      await assertRefused(store, file, {})
      assert.ok(performance.now() - start < 5000)
      assert.ok(process.memoryUsage.rss() - before < 100e6)
    })
  }

  it('rejects it by its declared size', async () => {
    const text = `${JSON.stringify(HEAD)}\n{"name":"session.json","size":${megabytes * 2 ** 20}}\n`
    await assertRefused(await openStore(), fileOf(bombOf(text, megabytes)), { code: 'WAYMARK_TOO_LARGE' })
  })
})

describe('the arguments of exportSession and importSession', () => {
  it('are checked and named', async () => {
    const store = await openStore()
    await store.saveSession(makeSession('s'))
    const invalid = (message) => ({ code: 'WAYMARK_INVALID_ARGUMENT', message })
    for (const [value, described] of [...NOT_STRINGS, [pathToFileURL('/x'), 'an object']]) {
      const expected = invalid(`file must be a string; got ${described}`)
      await assert.rejects(store.exportSession('s', value), expected)
      await assert.rejects(store.importSession(value), expected)
    }
    for (const path of ['', 'a\0b', 'dir/', '/', 'file:///tmp/x.zst']) {
      await assert.rejects(store.exportSession('s', path), { code: 'WAYMARK_INVALID_ARGUMENT' })
      await assert.rejects(store.importSession(path), { code: 'WAYMARK_INVALID_ARGUMENT' })
    }
    const file = join(scratchDirectory(), 's.zst')
    for (const call of [
      (options) => store.exportSession('s', file, options),
      (options) => store.importSession(file, options),
    ]) {
      for (const options of [null, 5, 'x', []])
        await assert.rejects(call(options), /^Error: options must be an object; got /)
      for (const onProgress of [null, {}, 'x']) {
        await assert.rejects(call({ onProgress }), /^Error: options\.onProgress must be a function; got /)
      }
      for (const signal of [null, {}, 'x', new AbortController()]) {
        await assert.rejects(call({ signal }), /^Error: options\.signal must be an AbortSignal; got /)
      }
    }
    for (const as of [null, 5, {}])
      await assert.rejects(store.importSession(file, { as }), /^Error: options\.as must be a string/)
    for (const as of INVALID_IDS.filter((id) => id !== 'C:\\x')) {
      await assert.rejects(store.importSession(file, { as }), { code: 'WAYMARK_INVALID_ID' })
    }
    for (const id of INVALID_IDS.filter((hostile) => hostile !== 'C:\\x')) {
      await assert.rejects(store.exportSession(id, file), { code: 'WAYMARK_INVALID_ID' })
    }
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('accept a link to a file', async (t) => {
    if (process.platform === 'win32') return t.skip('links need rights')
    const link = join(scratchDirectory(), 'link.zst')
    symlinkSync(fileOf(archiveOf(GOOD)), link)
    assert.equal((await (await openStore()).importSession(link)).sessionId, 's')
  })
})
