import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'
import { lookedDuring } from '../support/waiting.mjs'

/** A new checkpoint of session `s`; gives its id. */
async function made(store, options = {}) {
  return (await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })).checkpointId
}

async function labelled(store, id, label, options = undefined) {
  assert.deepEqual(await store.labelCheckpoint('s', id, label, options), { success: true })
}

/** The labels of all checkpoints of `s`, newest first; every method that shows them must show the same. */
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

/** The checkpoints with a label, newest first; every method that finds them must find the same. */
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

onEveryBackend('labels', (open) => {
  for (const compress of [false, true]) {
    it(`of a ${compress ? 'compressed' : 'plain'} checkpoint are given, changed and taken away, and all methods agree`, async () => {
      const store = await open()
      const born = await made(store, { compress, label: 'born with it' })
      const bare = await made(store, { compress })
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

  it('may be shared: the newest is found, then the one before', async () => {
    const store = await open()
    const ids = [await made(store, { label: 'green' }), await made(store), await made(store), await made(store)]
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

  it('may be any text of 1 to 200 bytes', async () => {
    const store = await open()
    const id = await made(store)
    const other = await made(store)
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

  it('that are no label, or for what is no id, are refused, and nothing changes', async () => {
    const store = await open()
    const id = await made(store, { label: 'old' })
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

  it('cannot be given to what does not exist', async () => {
    const store = await open()
    const id = await made(store)
    const doomed = await made(store)
    await store.deleteCheckpoint('s', doomed)
    for (const [session, checkpoint] of [
      ['s', 'cp-none'],
      ['s', doomed],
      ['nobody', id],
    ]) {
      const result = await store.labelCheckpoint(session, checkpoint, 'x')
      assert.deepEqual(result, {
        success: false,
        error: `Checkpoint not found: ${checkpoint} in session ${session}`,
        code: 'WAYMARK_NOT_FOUND',
      })
      assert.equal((await store.labelCheckpoint(session, checkpoint, null)).code, 'WAYMARK_NOT_FOUND')
    }
    assert.equal(await store.getCheckpointByLabel('nobody', 'x'), null)
    assert.deepEqual(
      (await store.sessionsInfo()).map((session) => session.id),
      ['s'],
    )
  })

  it('that must be unique are refused to a second checkpoint until the first has lost them', async () => {
    const store = await open()
    const [first, second] = [await made(store, { label: 'born' }), await made(store)]
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

  it('of other sessions and of agents are no obstacle', async () => {
    const store = await open()
    await checkpointOf(store, makeSession('other'), { ...OPTIONS, label: 'green' })
    await store.agent('s', 'a').save({ label: 'green' })
    const id = await made(store, { label: 'green', uniqueLabel: true })
    await labelled(store, id, 'green', { unique: true })
    await labelled(store, id, 'red')
    assert.equal((await store.getCheckpointByLabel('other', 'green')).sessionId, 'other')
    assert.equal((await store.agent('s', 'a').latest()).label, 'green')
  })

  it('of new checkpoints may have to be unique too, and then nothing is made in vain', async () => {
    const store = await open()
    const first = await made(store, { label: 'green', uniqueLabel: true })
    const again = () =>
      store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, label: 'green', uniqueLabel: true })
    const refused = await again()
    assert.deepEqual([refused.success, refused.code], [false, 'WAYMARK_EXISTS'])
    assert.ok(refused.error.includes(first), refused.error)
    const given = await made(store)
    await labelled(store, first, null)
    await labelled(store, given, 'green')
    assert.equal((await again()).code, 'WAYMARK_EXISTS')
    assert.equal((await store.listCheckpointInfo('s')).total, 2)
    await labelled(store, given, 'red')
    assert.equal((await again()).success, true)
    await made(store, { label: 'green', uniqueLabel: false })
    assert.equal((await idsWith(store, 'green')).length, 2)
  })

  it('have to be there to be unique', async () => {
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

  it('given all at once are all there', async () => {
    const store = await open()
    const ids = await Promise.all(Array.from({ length: 20 }, () => made(store)))
    await Promise.all(ids.map((id, index) => labelled(store, id, `label ${index}`)))
    assert.deepEqual(await labelsOf(store), ids.map((_, index) => `label ${index}`).toReversed())
  })
})

describe('the file of labels', () => {
  const labelsIn = (base) => JSON.parse(readFileSync(join(base, 's/labels.json'), 'utf8'))

  it('is JSON by the ids of checkpoints, and outlives the process', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const [one, two, three] = [await made(store, { label: 'born' }), await made(store), await made(store)]
    await labelled(store, two, 'a "label"')
    await labelled(store, one, null)
    assert.deepEqual(labelsIn(base), { [one]: null, [two]: 'a "label"' })
    await store.close()
    const reopened = await openStore(base)
    assert.deepEqual(await labelsOf(reopened), [undefined, 'a "label"', undefined])
    await labelled(reopened, three, 'third')
    assert.deepEqual(await labelsOf(reopened), ['third', 'a "label"', undefined])
  })

  it('is all that changes: the checkpoints keep their bytes, and are whole', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (const compress of [false, true]) await made(store, { compress, label: 'born' })
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

  it('loses the labels of checkpoints that are gone with the next change', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 3)
    const ids = [await made(store), await made(store), await made(store)]
    for (const id of ids) await labelled(store, id, `of ${id}`)
    await store.deleteCheckpoint('s', ids[1])
    assert.equal(await store.getCheckpointByLabel('s', `of ${ids[1]}`), null)
    await made(store)
    const last = await made(store)
    assert.equal(await store.getCheckpointByLabel('s', `of ${ids[0]}`), null, 'retention took it')
    await labelled(store, last, 'last')
    assert.deepEqual(labelsIn(base), { [ids[2]]: `of ${ids[2]}`, [last]: 'last' })
  })

  it('is not made for what is refused', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const id = await made(store, { label: 'taken' })
    const other = await made(store)
    const before = snapshotOf(base)
    assert.equal((await store.labelCheckpoint('s', 'cp-none', 'x')).code, 'WAYMARK_NOT_FOUND')
    assert.equal((await store.labelCheckpoint('nobody', id, 'x')).code, 'WAYMARK_NOT_FOUND')
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
    it(`that is ${kind} keeps nobody from the checkpoints, is reported, and is not overwritten`, async () => {
      const base = scratchDirectory()
      const store = await openStore(base)
      const id = await made(store, { label: 'born' })
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
      await made(store)
      rmSync(path, { recursive: true })
      await labelled(store, id, 'again')
      assert.deepEqual(await labelsOf(store), [undefined, 'again'])
    })
  }

  it('with values of another kind keeps the labels among them', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const [one, two] = [await made(store, { label: 'born' }), await made(store)]
    writeFileSync(join(base, 's/labels.json'), JSON.stringify({ [one]: 7, [two]: 'by hand', '../x': {}, '': [] }))
    assert.deepEqual(await labelsOf(store), ['by hand', 'born'])
    await labelled(store, one, 'again')
    assert.deepEqual(labelsIn(base), { [one]: 'again', [two]: 'by hand' })
  })

  it('loses nothing when two processes write it at once', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const ids = []
    for (let index = 0; index < 40; index += 1) ids.push(await made(store))
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

const idsOf = async (store) => (await store.listCheckpointInfo('s')).checkpoints.map(({ id }) => id)

async function pinnedIds(store) {
  const pinnedAmong = ({ checkpoints }) => {
    for (const { pinned } of checkpoints) assert.ok(pinned === true || pinned === undefined)
    return checkpoints.filter(({ pinned }) => pinned).map(({ id }) => id)
  }
  const pinned = pinnedAmong(await store.listCheckpointInfo('s'))
  assert.deepEqual(pinnedAmong(await store.history('s')), pinned)
  assert.deepEqual(pinnedAmong(await store.listAllCheckpoints()), pinned)
  assert.equal((await store.sessionsInfo()).find(({ id }) => id === 's').pinnedCount, pinned.length)
  return pinned
}

onEveryBackend('a pinned checkpoint', (open) => {
  for (const compress of [false, true]) {
    it(`outlives retention, and does not count towards the limit${compress ? ', compressed' : ''}`, async () => {
      const store = await open(2)
      const ids = [await made(store, { compress }), await made(store, { compress })]
      for (const id of ids) assert.deepEqual(await store.pinCheckpoint('s', id), { success: true })
      for (let count = 0; count < 10; count += 1) ids.push(await made(store, { compress }))
      assert.deepEqual(await idsOf(store), [ids[11], ids[10], ids[1], ids[0]])
      assert.deepEqual(await pinnedIds(store), [ids[1], ids[0]])
      assert.equal((await store.verifySession('s')).whole, true)
    })
  }

  it('goes with the next one that is made once it is unpinned', async () => {
    const store = await open(2)
    const pinned = await made(store)
    await store.pinCheckpoint('s', pinned)
    const ids = [await made(store), await made(store), await made(store)]
    assert.deepEqual(await store.unpinCheckpoint('s', pinned), { success: true })
    assert.deepEqual(await idsOf(store), [ids[2], ids[1], pinned], 'unpinning removes nothing by itself')
    assert.deepEqual(await pinnedIds(store), [])
    const next = await made(store)
    assert.deepEqual(await idsOf(store), [next, ids[2]])
  })

  it('may be the newest, or the only one that a limit of 1 leaves beside it', async () => {
    const store = await open(1)
    const first = await made(store)
    await store.pinCheckpoint('s', first)
    const second = await made(store)
    await store.pinCheckpoint('s', second)
    assert.equal((await store.getLatestCheckpoint('s')).id, second)
    const third = await made(store)
    assert.deepEqual(await idsOf(store), [third, second, first])
  })

  it('may be pinned and unpinned again and again', async () => {
    const store = await open(1)
    const id = await made(store)
    for (let round = 0; round < 2; round += 1) {
      for (let twice = 0; twice < 2; twice += 1) {
        assert.deepEqual(await store.pinCheckpoint('s', id), { success: true })
        assert.deepEqual(await pinnedIds(store), [id])
      }
      for (let twice = 0; twice < 2; twice += 1) {
        assert.deepEqual(await store.unpinCheckpoint('s', id), { success: true })
        assert.deepEqual(await pinnedIds(store), [])
      }
    }
  })

  it('is deleted by whoever asks for it by name', async () => {
    const store = await open()
    const ids = []
    for (const compress of [false, true]) {
      ids.push(await made(store, { compress }))
      await store.pinCheckpoint('s', ids.at(-1))
    }
    assert.deepEqual(await store.deleteCheckpoint('s', ids[1]), { success: true })
    assert.deepEqual(await pinnedIds(store), [ids[0]])
    assert.equal(await store.deleteSessionCheckpoints('s'), 1)
    assert.deepEqual(await idsOf(store), [])
  })

  it('has to exist', async () => {
    const store = await open()
    const id = await made(store)
    for (const method of ['pinCheckpoint', 'unpinCheckpoint']) {
      for (const [session, checkpoint] of [
        ['s', 'cp-none'],
        ['nobody', id],
      ]) {
        assert.deepEqual(await store[method](session, checkpoint), {
          success: false,
          error: `Checkpoint not found: ${checkpoint} in session ${session}`,
          code: 'WAYMARK_NOT_FOUND',
        })
      }
      assert.equal((await store[method]('..', id)).code, 'WAYMARK_INVALID_ID')
      assert.equal((await store[method]('s')).code, 'WAYMARK_INVALID_ARGUMENT')
    }
    assert.deepEqual(await pinnedIds(store), [])
  })

  it('is kept and found like any other', async () => {
    const store = await open(1)
    const id = await made(store, { label: 'base line' })
    await store.pinCheckpoint('s', id)
    await made(store)
    assert.equal((await store.getCheckpointByLabel('s', 'base line')).id, id)
    assert.equal((await store.restoreCheckpoint('s', id, { validateChecksum: true })).success, true)
    assert.equal((await store.loadSession('s')).lastCheckpointId, id)
  })

  it('is none of another session, even under the same id', async () => {
    const store = await open(1)
    const id = await made(store)
    await store.pinCheckpoint('s', id)
    assert.equal((await store.pinCheckpoint('other', id)).code, 'WAYMARK_NOT_FOUND')
    for (let count = 0; count < 3; count += 1) await checkpointOf(store, makeSession('other'))
    assert.equal((await store.listCheckpointInfo('other')).total, 1)
    assert.deepEqual(await pinnedIds(store), [id])
  })
})

describe('the pin of a checkpoint', () => {
  it('is an empty file beside it, which goes when it goes', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 1)
    const before = snapshotOf(base)
    assert.equal((await store.pinCheckpoint('nobody', 'cp-none')).code, 'WAYMARK_NOT_FOUND')
    assert.deepEqual(snapshotOf(base), before)
    const id = await made(store)
    const pin = join(base, 's', 'checkpoints', `${id}.pin`)
    await store.pinCheckpoint('s', id)
    assert.equal(readFileSync(pin).length, 0)
    await store.unpinCheckpoint('s', id)
    assert.equal(existsSync(pin), false)
    await store.pinCheckpoint('s', id)
    await store.deleteCheckpoint('s', id)
    assert.deepEqual(readdirSync(join(base, 's', 'checkpoints')), ['.names'])
  })

  it('outlives the process, and another store reckons with it', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    const id = await made(store)
    const other = await openStore(base, 2)
    await made(other)
    await store.pinCheckpoint('s', id)
    for (let count = 0; count < 4; count += 1) await made(other)
    await store.close()
    const reopened = await openStore(base, 2)
    assert.deepEqual(await pinnedIds(reopened), [id])
    for (let count = 0; count < 4; count += 1) await made(reopened)
    assert.equal((await idsOf(reopened)).at(-1), id)
    assert.equal((await idsOf(reopened)).length, 3)
    await reopened.unpinCheckpoint('s', id)
    await made(other)
    assert.equal((await idsOf(reopened)).length, 2)
  })

  it('holds against retention in another process: what was pinned with success is there at the end', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { maxCheckpointsPerSession: 3, durability: 'relaxed' })
    await made(store)
    const writer = runNode(`
      const store = new CheckpointStore(${JSON.stringify(base)}, { maxCheckpointsPerSession: 3, durability: 'relaxed' })
      await store.initialize()
      for (let n = 0; n < 300; n += 1) {
        const result = await store.createCheckpoint(${JSON.stringify(makeSession('s'))}, { trigger: 'auto' })
        if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    `)
    const pinned = new Set()
    await lookedDuring(writer, async () => {
      // The oldest is the one that retention wants too.
      const id = (await idsOf(store)).findLast((candidate) => !pinned.has(candidate))
      if (id === undefined) return
      const result = await store.pinCheckpoint('s', id)
      if (result.success) pinned.add(id)
      else assert.equal(result.code, 'WAYMARK_NOT_FOUND')
    })
    assert.deepEqual(await writer, { code: 0, signal: null, stdout: '', stderr: '' })
    const ids = await idsOf(store)
    assert.ok(pinned.size > 0)
    for (const id of pinned) assert.ok(ids.includes(id), `${id} was pinned, and is gone`)
    assert.deepEqual(await pinnedIds(store), [...pinned].toSorted().toReversed())
    await made(store)
    assert.ok((await idsOf(store)).length <= pinned.size + 3)
  })
})
