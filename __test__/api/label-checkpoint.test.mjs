import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { createInSequence } from '../support/deltas.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import {
  OPTIONS,
  checkpointOf,
  newCheckpointId,
  onEveryBackend,
  openStore,
  scratchDirectory,
  successesIn,
} from '../support/stores.mjs'

async function labelled(store, id, label, options = undefined) {
  assert.deepEqual(await store.labelCheckpoint('s', id, label, options), { success: true })
}

/** The labels of all checkpoints of `s`, newest first; asserts that all methods return the same. */
async function labelsOf(store) {
  const walked = []
  for await (const checkpoint of store.checkpoints('s')) walked.push(checkpoint)
  const listed = (await store.listCheckpoints('s')).checkpoints
  const single = await Promise.all(listed.map(({ id }) => store.getCheckpoint('s', id)))
  const views = [
    listed,
    single,
    walked,
    (await store.listCheckpointInfo('s')).checkpoints,
    (await store.listAllCheckpoints()).checkpoints,
    (await store.history('s')).checkpoints,
  ]
  const [labels, ...others] = views.map((view) => view.map(({ label }) => label))
  for (const other of others) assert.deepEqual(other, labels)
  for (const unlabelled of views.flat().filter(({ label }) => label === undefined)) {
    assert.equal('label' in unlabelled, false)
  }
  return labels
}

/** The checkpoints with a label, newest first; asserts that all methods find the same. */
async function idsWith(store, label) {
  const ids = (await store.listCheckpointInfo('s', { label })).checkpoints.map(({ id }) => id)
  const walked = []
  for await (const checkpoint of store.checkpoints('s', { label })) walked.push(checkpoint.id)
  assert.deepEqual(walked, ids)
  const found = await store.getCheckpointByLabel('s', label)
  assert.equal(found?.id, ids[0])
  if (found) assert.deepEqual(found, await store.getCheckpoint('s', found.id))
  return ids
}

onEveryBackend('labelCheckpoint', (open) => {
  for (const compress of [false, true]) {
    it(`sets, changes and removes the label of a ${compress ? 'compressed' : 'plain'} checkpoint for all methods`, async () => {
      const store = await open()
      const born = await newCheckpointId(store, { compress, label: 'born with it' })
      const bare = await newCheckpointId(store, { compress })
      assert.deepEqual(await labelsOf(store), [undefined, 'born with it'])
      await labelled(store, bare, 'given later')
      await labelled(store, born, 'changed')
      assert.deepEqual(await labelsOf(store), ['given later', 'changed'])
      assert.deepEqual(await idsWith(store, 'given later'), [bare])
      assert.deepEqual(await idsWith(store, 'changed'), [born])
      assert.deepEqual(await idsWith(store, 'born with it'), [])
      for (const id of [bare, born]) await labelled(store, id, null)
      assert.deepEqual(await labelsOf(store), [undefined, undefined])
      assert.deepEqual(await idsWith(store, 'changed'), [])
      await labelled(store, born, 'born with it')
      assert.deepEqual(await idsWith(store, 'born with it'), [born])
    })
  }

  it('allows equal labels; the newest checkpoint is found first', async () => {
    const store = await open()
    const ids = [
      await newCheckpointId(store, { label: 'green' }),
      await newCheckpointId(store),
      await newCheckpointId(store),
      await newCheckpointId(store),
    ]
    await labelled(store, ids[2], 'green')
    await labelled(store, ids[1], 'green')
    assert.deepEqual(await idsWith(store, 'green'), [ids[2], ids[1], ids[0]])
    await labelled(store, ids[2], 'red')
    assert.deepEqual(await idsWith(store, 'green'), [ids[1], ids[0]])
    await store.deleteCheckpoint('s', ids[1])
    assert.deepEqual(await idsWith(store, 'green'), [ids[0]])
    await labelled(store, ids[0], null)
    assert.equal(await store.getCheckpointByLabel('s', 'green'), null)
  })

  it('accepts any text of 1 to 200 bytes', async () => {
    const store = await open()
    const id = await newCheckpointId(store)
    const other = await newCheckpointId(store)
    const labels = [
      'null',
      '"',
      '\\',
      '\\"\\\\u0041',
      'line\nbreak\ttab\0nul',
      '🧭 → ünïcode',
      ' ',
      '{"a": 1}',
      '__proto__',
      '../up',
      '\u2028\u2029',
      'x'.repeat(200),
      'é'.repeat(100),
    ]
    for (const label of labels) {
      await labelled(store, id, label)
      assert.deepEqual(await labelsOf(store), [undefined, label])
      assert.deepEqual(await idsWith(store, label), [id])
    }
    for (const [index, label] of labels.entries()) await labelled(store, index % 2 ? id : other, label)
    assert.deepEqual(await labelsOf(store), [labels.at(-1), labels.at(-2)])
  })

  it('rejects invalid labels and ids and changes nothing', async () => {
    const store = await open()
    const id = await newCheckpointId(store, { label: 'old' })
    const refused = async (code, ...args) => {
      const result = await store.labelCheckpoint(...args)
      assert.deepEqual([result.success, result.code], [false, code], result.error)
      return result.error
    }
    for (const label of ['', 'x'.repeat(201), 'é'.repeat(101), 7, true, {}, ['a'], Symbol('s'), 1n, () => {}]) {
      assert.match(await refused('WAYMARK_INVALID_ARGUMENT', 's', id, label), /^label must be a string/)
      await assert.rejects(store.getCheckpointByLabel('s', label), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^label must be a string/,
      })
    }
    assert.match(await refused('WAYMARK_INVALID_ARGUMENT', 's', id), /^label must be a string, or null; got undefined/)
    for (const options of [null, 'unique', [], true, { unique: 1 }, { unique: null }]) {
      assert.match(await refused('WAYMARK_INVALID_ARGUMENT', 's', id, 'new', options), /^options(\.unique)? must be /)
    }
    await refused('WAYMARK_INVALID_ID', '../s', id, 'new')
    await refused('WAYMARK_INVALID_ID', 's', '..', 'new')
    await refused('WAYMARK_INVALID_ARGUMENT', 's', null, 'new')
    await assert.rejects(store.getCheckpointByLabel('..', 'new'), { code: 'WAYMARK_INVALID_ID' })
    await assert.rejects(store.getCheckpointByLabel('s', null), { code: 'WAYMARK_INVALID_ARGUMENT' })
    assert.deepEqual(await labelsOf(store), ['old'])
  })

  it('rejects a checkpoint that does not exist', async () => {
    const store = await open()
    const id = await newCheckpointId(store)
    const doomed = await newCheckpointId(store)
    await store.deleteCheckpoint('s', doomed)
    for (const [session, checkpoint] of [
      ['s', 'cp-none'],
      ['s', doomed],
      ['unknown', id],
    ]) {
      const result = await store.labelCheckpoint(session, checkpoint, 'x')
      assert.deepEqual(result, {
        success: false,
        error: `Checkpoint not found: ${checkpoint} in session ${session}`,
        code: 'WAYMARK_NOT_FOUND',
      })
      assert.equal((await store.labelCheckpoint(session, checkpoint, null)).code, 'WAYMARK_NOT_FOUND')
    }
    assert.equal(await store.getCheckpointByLabel('unknown', 'x'), null)
    assert.deepEqual(
      (await store.sessionsInfo()).map((session) => session.id),
      ['s'],
    )
  })

  it('with unique rejects a label that another checkpoint has', async () => {
    const store = await open()
    const [first, second] = [await newCheckpointId(store, { label: 'born' }), await newCheckpointId(store)]
    const unique = { unique: true }
    await labelled(store, first, 'later', unique)
    await labelled(store, first, 'later', unique)
    const refused = await store.labelCheckpoint('s', second, 'later', unique)
    assert.deepEqual([refused.success, refused.code], [false, 'WAYMARK_EXISTS'])
    assert.ok(refused.error.includes('"later"') && refused.error.includes(first), refused.error)
    assert.deepEqual(await labelsOf(store), [undefined, 'later'])
    await labelled(store, second, 'born', unique)
    assert.equal((await store.labelCheckpoint('s', first, 'born', unique)).code, 'WAYMARK_EXISTS')
    await labelled(store, first, null, unique)
    await labelled(store, second, 'later', unique)
    await store.deleteCheckpoint('s', second)
    await labelled(store, first, 'later', unique)
    assert.deepEqual(await labelsOf(store), ['later'])
  })

  it('with unique ignores labels of other sessions and of agents', async () => {
    const store = await open()
    await checkpointOf(store, makeSession('other'), { ...OPTIONS, label: 'green' })
    await store.agent('s', 'a').save({ label: 'green' })
    const id = await newCheckpointId(store, { label: 'green', uniqueLabel: true })
    await labelled(store, id, 'green', { unique: true })
    await labelled(store, id, 'red')
    assert.equal((await store.getCheckpointByLabel('other', 'green')).sessionId, 'other')
    assert.equal((await store.agent('s', 'a').latest()).label, 'green')
  })

  it('createCheckpoint with uniqueLabel creates nothing if the label is taken', async () => {
    const store = await open()
    const first = await newCheckpointId(store, { label: 'green', uniqueLabel: true })
    const again = () =>
      store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, label: 'green', uniqueLabel: true })
    const refused = await again()
    assert.deepEqual([refused.success, refused.code], [false, 'WAYMARK_EXISTS'])
    assert.ok(refused.error.includes(first), refused.error)
    const given = await newCheckpointId(store)
    await labelled(store, first, null)
    await labelled(store, given, 'green')
    assert.equal((await again()).code, 'WAYMARK_EXISTS')
    assert.equal((await store.listCheckpointInfo('s')).total, 2)
    await labelled(store, given, 'red')
    assert.equal((await again()).success, true)
    await newCheckpointId(store, { label: 'green', uniqueLabel: false })
    assert.equal((await idsWith(store, 'green')).length, 2)
  })

  it('uniqueLabel needs a label', async () => {
    const store = await open()
    for (const options of [
      { uniqueLabel: true },
      { label: 'x', uniqueLabel: 'yes' },
      { label: 'x', uniqueLabel: null },
    ]) {
      const refused = await store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, ...options })
      assert.equal(refused.code, 'WAYMARK_INVALID_ARGUMENT')
      assert.match(refused.error, /^options\.uniqueLabel /)
    }
    assert.equal((await store.listCheckpointInfo('s')).total, 0)
  })

  it('concurrent calls all take effect', async () => {
    const store = await open()
    const ids = await Promise.all(Array.from({ length: 20 }, () => newCheckpointId(store)))
    await Promise.all(ids.map((id, index) => labelled(store, id, `label ${index}`)))
    assert.deepEqual(await labelsOf(store), ids.map((_, index) => `label ${index}`).toReversed())
  })
})

describe('the labels file', () => {
  const labelsIn = (base) => JSON.parse(readFileSync(join(base, 's/labels.json'), 'utf8'))

  it('is JSON by checkpoint id and outlives the process', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const [one, two, three] = [
      await newCheckpointId(store, { label: 'born' }),
      await newCheckpointId(store),
      await newCheckpointId(store),
    ]
    await labelled(store, two, 'a "label"')
    await labelled(store, one, null)
    assert.deepEqual(labelsIn(base), { [one]: null, [two]: 'a "label"' })
    await store.close()
    const reopened = await openStore(base)
    assert.deepEqual(await labelsOf(reopened), [undefined, 'a "label"', undefined])
    await labelled(reopened, three, 'third')
    assert.deepEqual(await labelsOf(reopened), ['third', 'a "label"', undefined])
  })

  it('is the only file that a label changes', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (const compress of [false, true]) await newCheckpointId(store, { compress, label: 'born' })
    const before = snapshotOf(join(base, 's'))
    for (const [index, { id }] of (await store.listCheckpointInfo('s')).checkpoints.entries()) {
      await labelled(store, id, `label ${index}`)
    }
    const { '.lock': _, 'labels.json': labels, ...after } = snapshotOf(join(base, 's'))
    assert.ok(labels)
    assert.deepEqual(after, before)
    const report = await store.verifySession('s')
    assert.equal(report.whole, true)
    assert.ok(report.files.some(({ path }) => path === join(base, 's', 'labels.json')))
    for (const { id } of report.checkpoints) {
      assert.equal((await store.restoreCheckpoint('s', id, { validateChecksum: true })).success, true)
    }
  })

  it('drops labels of deleted checkpoints with the next change', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 3)
    const ids = [await newCheckpointId(store), await newCheckpointId(store), await newCheckpointId(store)]
    for (const id of ids) await labelled(store, id, `of ${id}`)
    await store.deleteCheckpoint('s', ids[1])
    assert.equal(await store.getCheckpointByLabel('s', `of ${ids[1]}`), null)
    await newCheckpointId(store)
    const last = await newCheckpointId(store)
    assert.equal(await store.getCheckpointByLabel('s', `of ${ids[0]}`), null, 'retention took it')
    await labelled(store, last, 'last')
    assert.deepEqual(labelsIn(base), { [ids[2]]: `of ${ids[2]}`, [last]: 'last' })
  })

  it('is not created for a rejected call', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await newCheckpointId(store, { label: 'taken' })
    const other = await newCheckpointId(store)
    const before = snapshotOf(base)
    assert.equal((await store.labelCheckpoint('s', 'cp-none', 'x')).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.labelCheckpoint('unknown', id, 'x')).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.labelCheckpoint('s', other, 'taken', { unique: true })).code, 'WAYMARK_EXISTS')
    assert.equal((await store.labelCheckpoint('s', other, '')).code, 'WAYMARK_INVALID_ARGUMENT')
    assert.deepEqual(snapshotOf(base), before)
  })

  const DAMAGE = {
    'cut off': (path) => writeFileSync(path, '{"cp-1": "x'),
    empty: (path) => writeFileSync(path, ''),
    'no text': (path) => writeFileSync(path, Buffer.from([0xff, 0xfe])),
    'a directory': (path) => {
      rmSync(path)
      mkdirSync(path)
    },
  }
  for (const [kind, damage] of Object.entries(DAMAGE)) {
    it(`is reported and not overwritten when it is ${kind}; checkpoints stay readable`, async () => {
      const base = scratchDirectory()
      const store = await openStore(base)
      const id = await newCheckpointId(store, { label: 'born' })
      await labelled(store, id, 'later')
      const path = join(base, 's', 'labels.json')
      damage(path)
      assert.deepEqual(await labelsOf(store), ['born'])
      assert.deepEqual(await idsWith(store, 'born'), [id])
      assert.equal((await store.restoreCheckpoint('s', id)).success, true)
      assert.equal((await store.recoverSession('s')).success, true)
      assert.equal((await store.sessionsInfo()).length, 1)
      const report = await store.verifySession('s')
      assert.equal(report.whole, false)
      assert.deepEqual(
        report.files.filter((file) => !file.whole).map((file) => [file.path, file.code]),
        [[path, 'WAYMARK_CORRUPT']],
      )
      const before = snapshotOf(base)
      const refused = await store.labelCheckpoint('s', id, 'again')
      assert.deepEqual([refused.success, refused.code], [false, 'WAYMARK_CORRUPT'])
      assert.ok(refused.error.includes(path), refused.error)
      assert.deepEqual(snapshotOf(base), before)
      await newCheckpointId(store)
      rmSync(path, { recursive: true })
      await labelled(store, id, 'again')
      assert.deepEqual(await labelsOf(store), [undefined, 'again'])
    })
  }

  it('keeps its valid labels if other values are invalid', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const [one, two] = [await newCheckpointId(store, { label: 'born' }), await newCheckpointId(store)]
    writeFileSync(join(base, 's/labels.json'), JSON.stringify({ [one]: 7, [two]: 'by hand', '../x': {}, '': [] }))
    assert.deepEqual(await labelsOf(store), ['by hand', 'born'])
    await labelled(store, one, 'again')
    assert.deepEqual(labelsIn(base), { [one]: 'again', [two]: 'by hand' })
  })

  it('loses no label when two processes write it at once', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const ids = []
    for (let index = 0; index < 40; index += 1) ids.push(await newCheckpointId(store))
    const script = (offset) => `
      const store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      const ids = ${JSON.stringify(ids)}.filter((_, index) => index % 2 === ${offset})
      for (const round of [1, 2]) {
        const calls = ids.map((id) => store.labelCheckpoint('s', id, round + ' of ' + id))
        for (const result of await Promise.all(calls)) if (!result.success) console.log(result.error)
      }
    `
    const runs = await Promise.all([0, 1].map((offset) => runNode(script(offset))))
    for (const run of runs) assert.deepEqual(run, { code: 0, signal: null, stdout: '', stderr: '' })
    assert.deepEqual(await labelsOf(store), ids.map((id) => `2 of ${id}`).toReversed())
    assert.deepEqual(
      readdirSync(join(base, 's')).filter((name) => name.endsWith('.tmp')),
      [],
    )
  })
})

describe('labelCheckpoint in memory', () => {
  // The change runs under the lock of the memory backend and reads checkpoints from it.
  it('is found by listAllCheckpoints', async () => {
    const { stdout } = await runNode(
      `const store = new CheckpointStore('memory:')
      await store.initialize()
      const { checkpointId } = await store.createCheckpoint(JSON.parse(process.argv[1]), { trigger: 'auto' })
      await store.labelCheckpoint('s', checkpointId, 'green')
      console.log((await store.listAllCheckpoints({ label: 'green' })).checkpoints.length)`,
      { args: [JSON.stringify(makeSession('s'))], timeout: 10_000 },
    )
    assert.equal(stdout, '1\n')
  })
})

describe('labels of a single store', () => {
  it('do not deadlock in memory', async () => {
    // In a separate process: a deadlock would keep this one from ending.
    const { stdout } = await runNode(
      `
      const store = new CheckpointStore('memory:')
      await store.initialize()
      const { checkpointId } = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
      console.log((await store.labelCheckpoint('s', checkpointId, 'green')).success)
    `,
      { timeout: 10_000 },
    )
    assert.equal(stdout, 'true\n')
  })

  it('that are unique go to one of several concurrent calls', async () => {
    const store = await openStore()
    const ids = [await newCheckpointId(store), await newCheckpointId(store)]
    for (let round = 0; round < 10; round += 1) {
      const label = `label ${round}`
      const results = await Promise.all(ids.map((id) => store.labelCheckpoint('s', id, label, { unique: true })))
      assert.equal(successesIn(results), 1)
      assert.equal((await store.listCheckpointInfo('s', { label })).checkpoints.length, 1)
    }
  })

  it('in a file without an object are reported by verifySession and labelCheckpoint', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await newCheckpointId(store)
    for (const text of ['[1]', '"x"', 'null', '7']) {
      writeFileSync(join(base, 's', 'labels.json'), text)
      assert.equal((await store.labelCheckpoint('s', id, 'x')).code, 'WAYMARK_CORRUPT')
      assert.equal((await store.verifySession('s')).whole, false, text)
    }
  })

  it('that are not valid text are rejected', async () => {
    const store = await openStore()
    const id = await newCheckpointId(store)
    assert.equal((await store.labelCheckpoint('s', id, '\ud800')).code, 'WAYMARK_INVALID_ARGUMENT')
    await assert.rejects(store.getCheckpointByLabel('s', '\ud801'), { code: 'WAYMARK_INVALID_ARGUMENT' })
  })
})

onEveryBackend('createCheckpoint with uniqueLabel', (open) => {
  it('succeeds once for concurrent calls', async () => {
    const store = await open()
    for (let round = 0; round < 10; round += 1) {
      const options = { ...OPTIONS, label: `label ${round}`, uniqueLabel: true }
      const calls = Array.from({ length: 3 }, () => store.createCheckpoint(makeSession('s'), {}, {}, options))
      assert.equal(successesIn(await Promise.all(calls)), 1)
    }
  })
})

onEveryBackend('a label', (open) => {
  it('is removed with its checkpoint', async () => {
    const store = await open()
    const [made, other] = await createInSequence(store, 2, { options: OPTIONS })
    await store.labelCheckpoint('s', made.checkpointId, 'gone')
    await store.labelCheckpoint('s', other.checkpointId, 'stays')
    await store.deleteCheckpoint('s', made.checkpointId)
    assert.equal((await store.labelCheckpoint('s', other.checkpointId, 'gone', { unique: true })).success, true)
    assert.equal((await store.labelCheckpoint('s', made.checkpointId, 'again')).code, 'WAYMARK_NOT_FOUND')
  })
})
