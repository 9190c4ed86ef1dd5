// importSession refuses files that are damaged, hostile or something else, and leaves nothing behind.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'

import {
  HEAD,
  TAR_END,
  archiveOf,
  bombOf,
  manifestOf,
  padded,
  tarHeader,
  tarMember,
  tarMembers,
  tarOf,
  zstdOf,
} from '../support/export-files.mjs'
import { INVALID_IDS, NOT_STRINGS } from '../support/invalid-values.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const SESSION = ['session.json', '{"id":"s"}']
const GOOD = [SESSION, ['checkpoints/x.json', '{}', { pinned: true, madeAt: 5 }]]

function fileOf(bytes) {
  const file = join(scratchDirectory(), 'session.tar.zst')
  writeFileSync(file, bytes)
  return file
}

/** Imports what must be refused, and proves that nothing of it is stored. */
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

async function assertAllRefused(store, files) {
  for (const [bytes, message] of files) await assertRefused(store, fileOf(bytes), { message })
}

async function exported() {
  const store = await openStore()
  await store.saveSession(makeSession('s'))
  await checkpointOf(store, makeSession('s'))
  const file = join(scratchDirectory(), 's.tar.zst')
  await store.exportSession('s', file)
  return readFileSync(file)
}

onEveryBackend('importSession with a damaged file', (open) => {
  it('refuses it wherever it is cut off', async () => {
    const whole = await exported()
    const store = await open()
    const lengths = new Set([0, 1, 3, 4, 5, whole.length - 1, whole.length - 4, whole.length - 5])
    for (let length = 7; length < whole.length; length += Math.ceil(whole.length / 40)) lengths.add(length)
    for (const length of lengths) await assertRefused(store, fileOf(whole.subarray(0, length)), {})
    await store.importSession(fileOf(whole))
  })

  it('refuses it whichever byte was changed', async () => {
    const whole = await exported()
    const store = await open()
    for (let at = 6; at < whole.length; at += Math.ceil(whole.length / 60)) {
      const changed = Buffer.from(whole)
      changed[at] ^= 0x55
      await assertRefused(store, fileOf(changed), {})
    }
    await store.importSession(fileOf(whole))
  })

  it('refuses it if something follows the zstd frame or the end of the tar', async () => {
    const whole = await exported()
    const store = await open()
    for (const more of [Buffer.from([0]), Buffer.from('text'), whole]) {
      await assertRefused(store, fileOf(Buffer.concat([whole, more])), { message: /something follows its end/ })
    }
    const tar = tarOf(GOOD)
    for (const more of [Buffer.from([0]), Buffer.alloc(512), Buffer.alloc(10_240), Buffer.from('text'), tar]) {
      await assertRefused(store, fileOf(zstdOf(Buffer.concat([tar, more]))), { message: /something follows its end/ })
    }
  })

  it('refuses a tar that is cut off, whatever the zstd frame says', async () => {
    const store = await open()
    const tar = tarOf(GOOD)
    for (const length of [
      512,
      513,
      700,
      1024,
      1500,
      2048,
      tar.length - 1025,
      tar.length - 1024,
      tar.length - 512,
      tar.length - 1,
    ]) {
      await assertRefused(store, fileOf(zstdOf(tar.subarray(0, length))), {})
    }
  })
})

onEveryBackend('importSession with a file that is no export file', (open) => {
  it('refuses it', async () => {
    const store = await open()
    const tar = tarOf(GOOD)
    const others = {
      'an empty file': Buffer.alloc(0),
      'a text': Buffer.from('hello'),
      'a gzip': gzipSync(tar),
      'a tar that is not compressed': tar,
      'another stream': zstdOf(Buffer.from('hello\n')),
      'an empty stream': zstdOf(Buffer.alloc(0)),
      'an empty tar': zstdOf(TAR_END),
      'another tar': zstdOf(Buffer.concat([tarMember('readme.md', 'hello'), TAR_END])),
      'a tar that begins with a session': zstdOf(Buffer.concat([tarMember(...SESSION), tar])),
      'another JSON': archiveOf(GOOD, { head: { waymark: 'database', version: 1 } }),
      'a head that is an array': archiveOf(GOOD, { head: [HEAD] }),
      'a head that is too long': archiveOf(GOOD, { head: { ...HEAD, more: 'x'.repeat(5000) } }),
    }
    for (const bytes of Object.values(others)) {
      await assertRefused(store, fileOf(bytes), { message: /is not an export file of a session/ })
    }
  })

  it('names a path that does not exist or is a directory', async () => {
    const store = await open()
    const directory = scratchDirectory()
    const missing = join(directory, 'missing.tar.zst')
    await assertRefused(store, missing, { code: 'WAYMARK_IO', message: /ENOENT/ })
    await assertRefused(store, directory, { message: /it is not a file/ })
    await assert.rejects(store.importSession(missing), (error) => error.cause.code === 'ENOENT')
  })

  it('names the version of a file in a newer format', async () => {
    const store = await open()
    const file = fileOf(archiveOf(GOOD, { head: { ...HEAD, version: 2 } }))
    await assertRefused(store, file, { code: 'WAYMARK_NEWER_VERSION', message: /newer version \(format 2\)/ })
    for (const version of [0, -1, 1.5, '1', null, undefined]) {
      await assertRefused(store, fileOf(archiveOf(GOOD, { head: { ...HEAD, version } })), { message: /no version/ })
    }
  })
})

onEveryBackend('importSession with a file of another writer', (open) => {
  it('imports it if it is valid', async () => {
    const store = await open()
    const { sessionId, checkpoints, documents, bytes } = await store.importSession(fileOf(archiveOf(GOOD)))
    assert.deepEqual([sessionId, checkpoints, documents, bytes], ['s', 1, 1, 12])
    const [{ id, pinned }] = (await store.listCheckpointInfo('s')).checkpoints
    assert.deepEqual([id, pinned], ['x', true])
  })

  it('imports long names in a GNU long name or in the prefix of a ustar header', async () => {
    const store = await open()
    const [agent, task] = ['é'.repeat(60), 't'.repeat(90)]
    const long = `agents/${agent}/${'x'.repeat(150)}.json`
    const ustar = `results/${task}.json`
    const prefix = {
      fields: [
        [0, `${task}.json${'\0'.repeat(5)}`],
        [257, 'ustar\x0000'],
        [345, 'results'],
      ],
    }
    const file = fileOf(archiveOf([SESSION, [ustar, '1', prefix], [long, '{}']]))
    const { checkpoints, documents } = await store.importSession(file)
    assert.deepEqual([checkpoints, documents], [1, 2])
    assert.deepEqual(await store.listAgents('s'), [agent])
    assert.equal(await store.loadTaskResult('s', task), 1)
  })

  it('refuses names that are not those of items, wherever they lead', async () => {
    const store = await open()
    const names = [
      '',
      '.',
      '..',
      './session.json',
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
      'waymark.json',
      'checkpoints/',
      'checkpoints/x',
      'checkpoints/x.pin',
      'checkpoints/../session.json',
      'checkpoints/../../escaped.json',
      'checkpoints//x.json',
      'checkpoints/a/b.json',
      'checkpoints\\x.json',
      'agents/x.json',
      'agents/../x.json',
      'agents/a/b/x.json',
      'results/../x.json',
      'results/CON.json',
      'results/x\u0001.json',
      `results/${'x'.repeat(201)}.json`,
      `checkpoints/${'../'.repeat(60)}etc/passwd`,
    ]
    for (const name of names) {
      const file = fileOf(archiveOf([SESSION, [name, '{}']]))
      await assertRefused(store, file, { message: /which is not an item of a session/ })
    }
  })

  it('refuses names that no other program reads the same way', async () => {
    const store = await open()
    const long = (bytes) => Buffer.concat([tarHeader('././@LongLink', bytes.length, { type: 'L' }), padded(bytes)])
    const after = (...parts) => zstdOf(Buffer.concat([tarMember('waymark.json', JSON.stringify(HEAD)), ...parts]))
    const name = long(Buffer.from('results/a.json\0'))
    const result = tarMember('results/b.json', '1')
    await assertAllRefused(store, [
      [after(name, name, result, TAR_END), /two long names/],
      [after(name, TAR_END), /a zero block before its end/],
      [after(long(Buffer.from('results/a.json')), result), /a long name in it does not end/],
      [after(long(Buffer.from('results/a.json\0../x\0')), result), /a long name in it does not end/],
      [after(long(Buffer.alloc(0)), result), /a long name in it does not end/],
      [after(long(Buffer.alloc(5000, 'x')), result), /a name in it is too long/],
      [after(long(Buffer.from([0xff, 0xfe, 0])), result), /a name in it is not UTF-8/],
      [after(tarMember('x', '', { fields: [[0, '\xff\xfe']] })), /a name in it is not UTF-8/],
    ])
  })

  it('refuses links, directories, devices, sparse files and pax headers', async () => {
    const store = await open()
    for (const type of '1234567DKMSVNX\u007f') {
      const link = ['results/t.json', '', { type, fields: [[157, '/etc/passwd']] }]
      await assertRefused(store, fileOf(archiveOf([SESSION, link])), { message: /not a regular file/ })
    }
    const records = ['28 path=../../etc/passwd.json\n', '22 size=99999999999999\n', '20 linkpath=session\n', '']
    for (const type of 'xg') {
      for (const record of records) {
        const pax = ['PaxHeaders/t', record, { type }]
        for (const items of [
          [pax, SESSION],
          [SESSION, pax],
          [SESSION, pax, ['results/t.json', '1']],
        ]) {
          await assertRefused(store, fileOf(archiveOf(items)), { message: /pax headers/ })
        }
      }
    }
  })

  it('refuses a session whose id is invalid, but imports it under another', async () => {
    const store = await open()
    for (const sessionId of INVALID_IDS.filter((id) => !/[\ud800-\udfff]/.test(id) && id !== 'C:\\x')) {
      await assertRefused(store, fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId } })), {})
    }
    for (const sessionId of [undefined, null, 5, {}]) {
      const file = fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId } }))
      await assertRefused(store, file, { message: /does not say what is in it/ })
    }
    const file = fileOf(archiveOf(GOOD, { head: { ...HEAD, sessionId: '../s' } }))
    assert.equal((await store.importSession(file, { as: 'other' })).sessionId, 'other')
  })

  it('refuses items that are there twice, lack the version after them, or have metadata that is not theirs', async () => {
    const store = await open()
    const twice = [SESSION, ['results/t.json', '1'], ['results/t.json', '2']]
    const timed = [['checkpoints/cp-1-000000.json', '{}', { madeAt: 5 }]]
    await assertAllRefused(store, [
      [archiveOf(twice), /"results\/t\.json" twice/],
      [archiveOf([SESSION, SESSION]), /"session\.json" twice/],
      [archiveOf([SESSION, ['session.2.json', '{}']]), /without the version after it/],
      [archiveOf([['session.json', '{}', { pinned: true }]]), /only checkpoints have/],
      [archiveOf([['results/t.json', '1', { madeAt: 5 }]]), /only checkpoints have/],
      [archiveOf(timed), /another time than its own/],
      [archiveOf([['checkpoints/x.json', '{}', { madeAt: 8.64e15 + 1 }]]), /another time than its own/],
      [
        archiveOf([
          ['checkpoints/x.json', '{}'],
          ['checkpoints/x.json.gz', 'x'],
        ]),
        /in a second encoding/,
      ],
      [archiveOf([]), /it holds no items/],
    ])
  })

  it('refuses a manifest that does not match the members', async () => {
    const store = await open()
    const manifest = manifestOf(GOOD)
    const { members } = manifest
    const others = /its manifest lists other members than it holds/
    const unreadable = /its manifest cannot be read/
    const listed = (change) => archiveOf([[...SESSION, { listed: change }]])
    await assertAllRefused(store, [
      [listed({ size: 1 }), others],
      [listed({ name: 'task-tree.json' }), others],
      [listed({ sha256: '0'.repeat(64) }), /"session\.json" does not match its checksum/],
      [listed({ sha256: '' }), /"session\.json" does not match its checksum/],
      [archiveOf(GOOD, { manifest: { members: members.toReversed() } }), others],
      [archiveOf(GOOD, { manifest: { members: members.slice(0, 2) } }), others],
      [archiveOf(GOOD, { manifest: { members: members.slice(1) } }), others],
      [archiveOf(GOOD, { manifest: { members: [] } }), others],
      [archiveOf(GOOD, { manifest: { items: 3 } }), /the totals in its manifest are wrong/],
      [archiveOf(GOOD, { manifest: { bytes: 13 } }), /the totals in its manifest are wrong/],
      [archiveOf(GOOD, { manifest: { bytes: undefined } }), unreadable],
      [archiveOf(GOOD, { manifest: { more: 1 } }), unreadable],
      [archiveOf(GOOD, { manifest: '' }), unreadable],
      [archiveOf(GOOD, { manifest: '[]' }), unreadable],
      [archiveOf(GOOD, { manifest: '{"items":' }), unreadable],
      [archiveOf(GOOD, { manifest: `${JSON.stringify(manifest)}x` }), unreadable],
      [archiveOf(GOOD, { manifest: '['.repeat(1200) }), unreadable],
      [archiveOf(GOOD, { manifest: `${JSON.stringify(manifest)}${' '.repeat(5000)}` }), /its manifest is too long/],
      [listed({ sha256: 5 }), unreadable],
      [listed({ size: -1 }), unreadable],
      [listed({ size: '10' }), unreadable],
      [listed({ more: 1 }), unreadable],
      [archiveOf([['checkpoints/x.json', '{}', { pinned: 'yes' }]]), unreadable],
      [archiveOf([['checkpoints/x.json', '{}', { madeAt: -5 }]]), unreadable],
      [archiveOf([['checkpoints/x.json', '{}', { madeAt: 1e300 }]]), unreadable],
      [archiveOf(GOOD, { head: { ...HEAD, items: undefined } }), /does not say what is in it/],
    ])
    const [headMember] = manifestOf(GOOD, { ...HEAD, sessionId: 'other' }).members
    const otherHead = archiveOf(GOOD, { manifest: { members: [headMember, ...members.slice(1)] } })
    await assertRefused(store, fileOf(otherHead), { message: others })
  })

  it('refuses a file without a manifest, or with something behind it', async () => {
    const store = await open()
    const head = tarMember('waymark.json', JSON.stringify(HEAD))
    const session = tarMember(...SESSION)
    const behind = [tarMembers(GOOD), tarMember('results/t.json', '1'), TAR_END]
    await assertAllRefused(store, [
      [zstdOf(Buffer.concat([head, session, TAR_END])), /it has no manifest/],
      [zstdOf(Buffer.concat([head, session])), /it ends too early/],
      [zstdOf(tarMembers(GOOD)), /it ends too early/],
      [zstdOf(Buffer.concat(behind)), /something follows its manifest/],
      [zstdOf(Buffer.concat([tarMembers(GOOD), tarMembers(GOOD), TAR_END])), /something follows its manifest/],
      [zstdOf(Buffer.concat([tarMembers(GOOD), TAR_END.subarray(512)])), /it ends too early/],
      [zstdOf(Buffer.concat([head, TAR_END.subarray(512), session, TAR_END])), /a zero block before its end/],
    ])
  })

  it('refuses headers that lie about a size, or are damaged', async () => {
    const store = await open()
    const sized = (size) => archiveOf([[...SESSION, { size }]])
    const header = /it has a damaged tar header/
    await assertAllRefused(store, [
      [sized(1), /something between its members/],
      [sized(11), /its manifest lists other members/],
      [sized(600), /something between its members/],
      [sized(2 ** 20), /it ends too early/],
      [sized('-0000000010'), header],
      [sized('99999999999'), header],
      [sized('           '), header],
      [sized(Buffer.from([0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 10])), header],
      [sized(Buffer.alloc(12, 0xff)), header],
      [archiveOf([[...SESSION, { checksum: '0000000\0' }]]), header],
      [archiveOf([[...SESSION, { checksum: 'x' }]]), header],
      [archiveOf([[...SESSION, { fields: [[257, '\0\0\0\0\0\0\0\0']] }]]), header],
    ])
    const padding = tarOf([SESSION])
    padding[padding.indexOf('{"id":"s"}') + 100] = 1
    await assertRefused(store, fileOf(zstdOf(padding)), { message: /something between its members/ })
  })

  it('refuses items that are larger than the store reads', async () => {
    const store = await open({ maxReadBytes: 5 })
    const expected = { code: 'WAYMARK_TOO_LARGE', message: /raise maxReadBytes/ }
    await assertRefused(store, fileOf(archiveOf(GOOD)), expected)
    const huge = Buffer.from([0x80, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0])
    await assertRefused(store, fileOf(archiveOf([[...SESSION, { size: huge }]])), expected)
  })
})

describe('importSession with a decompression bomb', () => {
  const megabytes = 20_000
  const head = tarMember('waymark.json', JSON.stringify(HEAD))
  const bombs = {
    'in place of a header': [head],
    'in a long name': [Buffer.concat([head, tarHeader('././@LongLink', megabytes * 2 ** 20, { type: 'L' })])],
    'in a pax header': [Buffer.concat([head, tarHeader('pax', 2 ** 30, { type: 'x' })])],
    'behind an item that says it is short': [Buffer.concat([head, tarHeader('session.json', 10)])],
    'in the manifest': [Buffer.concat([head, tarMember(...SESSION), tarHeader('manifest.json', 2 ** 30)])],
    'of zeros behind the end': [tarOf(GOOD), '\0'],
    'of zeros in place of a header': [head, '\0'],
  }
  for (const [place, [bytes, fill]] of Object.entries(bombs)) {
    it(`refuses one ${place} at once`, async () => {
      const file = fileOf(bombOf(bytes, megabytes, fill))
      const store = await openStore()
      const before = process.memoryUsage.rss()
      const start = performance.now()
      await assertRefused(store, file, {})
      assert.ok(performance.now() - start < 5000)
      assert.ok(process.memoryUsage.rss() - before < 100e6)
    })
  }

  it('refuses one that says how large it is by that', async () => {
    const bytes = Buffer.concat([head, tarHeader('session.json', 2 ** 32)])
    await assertRefused(await openStore(), fileOf(bombOf(bytes, megabytes)), { code: 'WAYMARK_TOO_LARGE' })
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
    for (const path of ['', 'a\0b', 'dir/', '/', 'file:///tmp/x.tar.zst']) {
      await assert.rejects(store.exportSession('s', path), { code: 'WAYMARK_INVALID_ARGUMENT' })
      await assert.rejects(store.importSession(path), { code: 'WAYMARK_INVALID_ARGUMENT' })
    }
    const file = join(scratchDirectory(), 's.tar.zst')
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
    const link = join(scratchDirectory(), 'link.tar.zst')
    symlinkSync(fileOf(archiveOf(GOOD)), link)
    assert.equal((await (await openStore()).importSession(link)).sessionId, 's')
  })
})
