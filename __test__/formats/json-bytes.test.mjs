import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'

import { checkpointFiles, integrityOf, originalChecksum, readCheckpointText } from '../support/original-format.mjs'
import { makeAgent, makeSession, throughJson, withoutTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

const ODD_VALUES = {
  2: 'two',
  10: 'ten',
  b: 1,
  '': 'empty key',
  'empty list': [],
  nested: { empty: {}, list: [[], {}, [1, [2]]], 'quote"d \\ key\n': 1 },
  strings: [
    '\t',
    '\n',
    '\u0000',
    '\u0007',
    '\u007f',
    '"',
    '\\',
    '/',
    '\u2028',
    '\u2029',
    '\ufeff',
    '🟦👩‍💻',
    '\ud800',
    '\udc00x',
    '検査点',
    'é',
  ],
  numbers: [
    0,
    -0,
    1e21,
    1e-7,
    123456789012345680000,
    5e-324,
    1.7976931348623157e308,
    2 ** 53,
    0.1 + 0.2,
    -1.5e-10,
    NaN,
    Infinity,
  ],
  dropped: [undefined, () => {}, Symbol('x')],
  undefined: undefined,
  date: new Date(1_700_000_000_000),
  map: new Map([['a', 1]]),
  set: new Set([1]),
  typed: new Uint8Array([1, 2]),
  toj: { toJSON: (key) => `from toJSON of ${key}` },
  boxed: [Object(3), Object('s'), Object(false)],
  look: '{"like": [ "json" ] , "but":"text"}',
}

/** Values of every shape from a fixed seed. */
function* randomValues(count, seed = 12345) {
  let state = seed
  const random = (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % limit
  }
  const texts = [
    '',
    'plain',
    'with "quotes" and \\',
    '{[,:]}',
    'é検査🟦',
    '\ud800',
    '\u0000\u001f',
    ' spaced  out ',
    'line\nbreak',
  ]
  const value = (depth) => {
    switch (random(depth > 4 ? 5 : 7)) {
      case 0:
        return null
      case 1:
        return random(2) === 0
      case 2:
        return (random(2_000_001) - 1_000_000) / 10 ** random(12)
      case 3:
        return random(1_000_000) * 10 ** random(25)
      case 4:
        return texts[random(texts.length)]
      case 5:
        return Array.from({ length: random(5) }, () => value(depth + 1))
      default:
        return Object.fromEntries(
          Array.from({ length: random(5) }, () => [texts[random(texts.length)] + random(30), value(depth + 1)]),
        )
    }
  }
  for (let index = 0; index < count; index += 1) yield value(0)
}

describe('stored bytes', () => {
  it('equal JSON.stringify(value, null, 2) for unusual values', async () => {
    const store = await openStore()
    const session = makeSession('s', { metadata: ODD_VALUES })
    const tree = { ...session.taskTree, odd: ODD_VALUES }
    const saved = await store.saveSession(session)
    const { taskTree: _, ...bare } = session
    assert.equal(readFileSync(saved.path, 'utf8'), JSON.stringify(bare, null, 2))
    const savedTree = await store.saveTaskTree('s', tree)
    assert.equal(readFileSync(savedTree.path, 'utf8'), JSON.stringify(tree, null, 2))
    for (const [index, value] of Object.values(ODD_VALUES).entries()) {
      const result = await store.saveTaskResult('s', `t${index}`, value)
      const expected = JSON.stringify(value, null, 2)
      if (expected === undefined) assert.equal(result.success, false)
      else assert.equal(readFileSync(result.path, 'utf8'), expected)
    }
  })

  it('equal JSON.stringify for random values', async () => {
    const store = await openStore(scratchDirectory(), { durability: 'relaxed' })
    for (const value of randomValues(2000)) {
      const { path, sizeBytes } = await store.saveTaskResult('s', 't', value)
      const bytes = readFileSync(path)
      assert.equal(bytes.toString('utf8'), JSON.stringify(value, null, 2))
      assert.equal(bytes.length, sizeBytes)
      assert.deepEqual(await store.loadTaskResult('s', 't'), throughJson(value))
    }
  })

  it('of a checkpoint are the text of JSON.stringify around two checksums, indented or gzipped', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const session = makeSession('s', { metadata: ODD_VALUES })
    const agents = { a: makeAgent('a'), odd: ODD_VALUES }
    for (const compress of [false, true]) {
      await checkpointOf(store, session, { ...OPTIONS, compress, metadata: ODD_VALUES }, agents, ODD_VALUES)
    }
    for (const path of checkpointFiles(base, 's')) {
      const text = readCheckpointText(path)
      const parsed = JSON.parse(text)
      assert.equal(text, JSON.stringify(parsed, null, path.endsWith('.gz') ? 0 : 2))
      assert.deepEqual(parsed.contextStore, throughJson(ODD_VALUES))
      assert.equal(parsed.checksum, originalChecksum(parsed))
      assert.equal(parsed.integrity, integrityOf(parsed))
      assert.equal(parsed.sizeBytes, 0)
    }
  })

  it('begin with the gzip header of Node.js and an extra field for lists', async () => {
    const store = await openStore()
    const { path } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true })
    const bytes = readFileSync(path)
    assert.equal(bytes.subarray(0, 10).toString('hex'), '1f8b0804000000000003')
    assert.equal(bytes.subarray(12, 14).toString(), 'WM')
    const extra = bytes.subarray(16, 12 + bytes.readUInt16LE(10))
    const { id, timestamp, trigger, taskCount } = JSON.parse(readCheckpointText(path)) // zlib skips the extra field
    assert.deepEqual(JSON.parse(extra), { id, timestamp, trigger, taskCount, agentCount: 0 })
  })

  it('keep every character of long texts in any sequence', async () => {
    const store = await openStore()
    const kinds = ['plain ASCII ', 'Latin: é ü ß ', 'beyond: 検査 → ✓ ', 'pairs: 🟦🟩 ', 'lone: \ud800 ']
    for (const first of kinds) {
      for (const second of kinds) {
        for (const text of [first.repeat(4000), second.repeat(4000)]) {
          await store.saveTaskResult('s', 't', { text })
          assert.equal((await store.loadTaskResult('s', 't')).text, text)
        }
      }
    }
  })

  it('of a state of many megabytes return it whole', async () => {
    const store = await openStore()
    const prompt = 'Refactor the parser — 検査 '.repeat(40)
    const tasks = Array.from({ length: 5000 }, (_, index) => [`task-${index}`, { id: `task-${index}`, prompt }])
    const session = makeSession('s', { taskTree: Object.fromEntries(tasks) })
    for (const compress of [false, true]) {
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress })
      const stored = await store.getCheckpoint('s', checkpointId)
      assert.deepEqual(stored.taskTree, session.taskTree)
      const restored = await store.restoreCheckpoint({ checkpointId, validateChecksum: true })
      assert.equal(restored.restoredTasks, 5000)
    }
    assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    assert.deepEqual(withoutTree(session).config, (await store.loadSession('s')).config)
  })
})

describe('a checkpoint with other spellings of null and 0', () => {
  for (const [size, padding] of Object.entries({ small: 10, large: 200_000 })) {
    it(`${size}: every read returns the values that the checksums cover`, async () => {
      const store = await openStore(scratchDirectory())
      const values = [null, 0, 'x'.repeat(padding)]
      const { checkpointId, path } = await store.createCheckpoint(makeSession('s'), {}, { values }, OPTIONS)
      const text = readFileSync(path, 'utf8')
      writeFileSync(path, text.replace(/null,(\s*)0,(\s*)"xxx/, '1e400,$1-0,$2"xxx'))
      assert.notEqual(readFileSync(path, 'utf8'), text)
      assert.equal((await store.verifyCheckpoint('s', checkpointId)).whole, true)
      const [listed] = (await store.listCheckpoints('s')).checkpoints
      for (const read of [await store.getCheckpoint('s', checkpointId), await store.getLatestCheckpoint('s'), listed]) {
        assert.deepEqual(read.contextStore.values, values)
        assert.ok(Object.is(read.contextStore.values[1], 0))
      }
    })
  }
})
