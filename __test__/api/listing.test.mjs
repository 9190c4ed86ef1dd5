import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { checkpointFiles } from '../support/reference.mjs'
import { makeAgent, makeSession, makeTree } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

async function makeMany(store, count, options = {}) {
  const made = []
  for (let number = 0; number < count; number += 1) {
    const { checkpointId } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })
    made.unshift(checkpointId)
  }
  return made
}

const ids = (page) => page.checkpoints.map(({ id }) => id)

onEveryBackend('what there is', (open) => {
  for (const compress of [false, true]) {
    it(`is shown without payloads, ${compress ? 'compressed' : 'plain'}`, async () => {
      const store = await open()
      const session = makeSession('s', { taskTree: makeTree(4), lastCheckpointId: 'cp-before' })
      const options = {
        trigger: 'milestone',
        description: 'a "word", →',
        label: 'green',
        compress,
        includeContext: false,
      }
      const made = await store.createCheckpoint(session, { a: makeAgent('a'), b: makeAgent('b') }, {}, options)
      const { timestamp } = await store.getCheckpoint('s', made.checkpointId)
      assert.deepEqual(await store.listCheckpointInfo('s'), {
        checkpoints: [
          {
            id: made.checkpointId,
            timestamp,
            trigger: 'milestone',
            description: 'a "word", →',
            label: 'green',
            parent: 'cp-before',
            taskCount: 4,
            agentCount: 2,
            sizeBytes: made.sizeBytes,
            encoding: compress ? 'gzip' : 'json',
          },
        ],
        total: 1,
        damaged: [],
      })
    })

    it(`is shown in full even where descriptions and metadata are long, ${compress ? 'compressed' : 'plain'}`, async () => {
      const store = await open()
      for (const length of [0, 100, 2000, 5000, 70_000]) {
        const description = 'd"é'.repeat(length)
        const metadata = { long: 'm'.repeat(length), taskCount: 99 }
        await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress, description, metadata })
        const { checkpoints } = await store.listCheckpointInfo('s', { limit: 1 })
        assert.equal(checkpoints[0].description, description)
        assert.equal(checkpoints[0].taskCount, 3)
      }
    })
  }

  it('leaves out what a checkpoint does not have', async () => {
    const store = await open()
    await checkpointOf(store, makeSession('s', { taskTree: {} }))
    const [info] = (await store.listCheckpointInfo('s')).checkpoints
    assert.deepEqual(Object.keys(info), [
      'id',
      'timestamp',
      'trigger',
      'taskCount',
      'agentCount',
      'sizeBytes',
      'encoding',
    ])
    assert.equal(info.taskCount, 0)
  })

  it('is nothing for a session that is not there', async () => {
    const store = await open()
    assert.deepEqual(await store.listCheckpointInfo('nobody'), { checkpoints: [], total: 0, damaged: [] })
  })

  it('comes in pages that stay right while checkpoints come and go', async () => {
    const store = await open()
    const made = await makeMany(store, 7)
    const first = await store.listCheckpointInfo('s', { limit: 3 })
    assert.deepEqual(ids(first), made.slice(0, 3))
    assert.equal(first.total, 7)
    // The one that the cursor stands on goes, one behind it goes, and a new one comes.
    await store.deleteCheckpoint('s', made[2])
    await store.deleteCheckpoint('s', made[4])
    await makeMany(store, 1)
    const second = await store.listCheckpointInfo('s', { limit: 2, cursor: first.cursor })
    assert.deepEqual(ids(second), [made[3], made[5]])
    const third = await store.listCheckpointInfo('s', { limit: 2, cursor: second.cursor })
    assert.deepEqual(ids(third), [made[6]])
    assert.equal(third.cursor, undefined)
    assert.equal('cursor' in third, false)
  })

  it('has no further page after one that ends exactly with the last', async () => {
    const store = await open()
    const made = await makeMany(store, 4)
    const first = await store.listCheckpointInfo('s', { limit: 2 })
    const second = await store.listCheckpointInfo('s', { limit: 2, cursor: first.cursor })
    assert.deepEqual([...ids(first), ...ids(second)], made)
    assert.equal(second.cursor, undefined)
  })

  it('can be narrowed by trigger, label and time', async () => {
    const store = await open()
    const [auto] = await makeMany(store, 1, { trigger: 'auto' })
    const [labelled] = await makeMany(store, 1, { trigger: 'manual', label: 'release 1', compress: true })
    const [other] = await makeMany(store, 1, { trigger: 'manual', label: 'release 2' })
    const all = (await store.listCheckpointInfo('s')).checkpoints
    const found = async (options) => ids(await store.listCheckpointInfo('s', options))
    assert.deepEqual(await found({ trigger: 'auto' }), [auto])
    assert.deepEqual(await found({ trigger: 'manual' }), [other, labelled])
    assert.deepEqual(await found({ label: 'release 1' }), [labelled])
    assert.deepEqual(await found({ label: 'release' }), [])
    assert.deepEqual(await found({ trigger: 'auto', label: 'release 1' }), [])
    assert.deepEqual(await found({ since: all[2].timestamp }), [other, labelled, auto])
    assert.deepEqual(await found({ since: all[0].timestamp + 1 }), [])
    assert.deepEqual(await found({ until: new Date(all[2].timestamp - 1) }), [])
    assert.deepEqual(await found({ since: new Date(all[2].timestamp), until: Infinity }), [other, labelled, auto])
    assert.deepEqual(await found({ trigger: 'manual', limit: 1 }), [other])
  })

  it('shows no checkpoint twice that is converted between two pages', async () => {
    const store = await open()
    for (const order of [undefined, 'iteration']) {
      for (const [from, to] of [
        ['zstd', 'json'],
        ['json', 'zstd'],
        ['delta', 'gzip'],
        ['gzip', 'delta'],
      ]) {
        const session = `${order} ${from}`
        const agent = store.agent(session, 'a')
        for (let iteration = 0; iteration < 4; iteration += 1) {
          await checkpointOf(store, makeSession(session), { ...OPTIONS, encoding: from })
          await agent.save({ iteration }, { encoding: from })
        }
        const lists = [(options) => agent.info({ ...options, order })]
        if (!order) {
          lists.push((options) => store.listCheckpointInfo(session, options))
          lists.push((options) => store.listAllCheckpoints({ ...options }))
        }
        const first = await Promise.all(lists.map((list) => list({ limit: 2 })))
        await store.convert(session, to)
        for (const [at, list] of lists.entries()) {
          const second = await list({ limit: 2, cursor: first[at].cursor })
          const shown = [...first[at].checkpoints, ...second.checkpoints].map(({ id }) => id)
          assert.equal(new Set(shown).size, 4, `list ${at}, ${order}, ${from} to ${to}`)
        }
      }
    }
  })

  it('is refused to a cursor, a limit, a time or a label that makes no sense', async () => {
    const store = await open()
    const wrong = [
      { cursor: 'x' },
      { cursor: '12/../up.json' },
      { cursor: 7 },
      { limit: -1 },
      { limit: 1.5 },
      { since: 'yesterday' },
      { until: Number.NaN },
      { since: new Date('no date') },
      { trigger: 'sometimes' },
      { label: '' },
      { label: 'x'.repeat(201) },
    ]
    for (const options of wrong) {
      const [name] = Object.keys(options)
      await assert.rejects(store.listCheckpointInfo('s', options), ({ code, message }) => {
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', message)
        assert.ok(message.startsWith(`options.${name} must be `), message)
        return true
      })
    }
    await assert.rejects(store.listCheckpointInfo('s', []), { code: 'WAYMARK_INVALID_ARGUMENT' })
    await assert.rejects(store.listCheckpointInfo('..'), { code: 'WAYMARK_INVALID_ID' })
    for (const label of ['', 7, 'x'.repeat(201)]) {
      const refused = await checkpointOf(store, makeSession('s'), { ...OPTIONS, label }).catch((error) => error)
      assert.match(String(refused.error ?? refused.message), /options\.label must be/)
    }
  })
})

onEveryBackend('a walk over checkpoints', (open) => {
  it('shows each once, newest first, whatever comes and goes meanwhile', async () => {
    const store = await open()
    const made = await makeMany(store, 5)
    const seen = []
    for await (const checkpoint of store.checkpoints('s')) {
      if (seen.length === 0) {
        await store.deleteCheckpoint('s', made[2])
        await makeMany(store, 2)
      }
      assert.deepEqual(checkpoint, await store.getCheckpoint('s', checkpoint.id))
      seen.push(checkpoint.id)
    }
    assert.deepEqual(seen, [made[0], made[1], made[3], made[4]])
  })

  it('can be narrowed, left early, and asked again after its end', async () => {
    const store = await open()
    const [labelled] = await makeMany(store, 1, { label: 'x' })
    await makeMany(store, 3)
    const found = []
    for await (const { id } of store.checkpoints('s', { label: 'x' })) found.push(id)
    assert.deepEqual(found, [labelled])

    const walk = store.checkpoints('s')
    for await (const { id } of walk) {
      assert.ok(id)
      break
    }
    assert.deepEqual(await walk.next(), { done: true, value: undefined })
    assert.equal(walk[Symbol.asyncIterator](), walk)

    const empty = store.checkpoints('nobody')
    for (const _ of [1, 2]) assert.deepEqual(await empty.next(), { done: true, value: undefined })
  })

  it('answers steps in the order in which they were asked for', async () => {
    const store = await open()
    const made = await makeMany(store, 12)
    const walk = store.checkpoints('s')
    const steps = await Promise.all(Array.from({ length: 14 }, () => walk.next()))
    assert.deepEqual(
      steps.map(({ value }) => value?.id),
      [...made, undefined, undefined],
    )
  })

  it('rejects at its first step if its arguments are wrong or the store is closed, and never throws', async () => {
    const store = await open()
    for (const [session, options] of [['../up'], ['s', { trigger: 'x' }], ['s', { skipDamaged: 1 }], ['s', 7], []]) {
      const walk = store.checkpoints(session, options)
      await assert.rejects(walk.next(), ({ code }) => /^WAYMARK_INVALID_(ARGUMENT|ID)$/.test(code))
      assert.equal((await walk.next()).done, true)
    }
    await makeMany(store, 1)
    const walk = store.checkpoints('s')
    await store.close()
    await assert.rejects(walk.next(), { code: 'WAYMARK_CLOSED' })
  })
})

describe('damaged files in lists', () => {
  const damagedStore = async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = await makeMany(store, 4)
    const file = (index) => join(base, 's/checkpoints', `${made[index]}.json`)
    truncateSync(file(1), 0)
    truncateSync(file(2), 300)
    return { base, store, made, file }
  }

  it('are named, and hide nothing', async () => {
    const { store, made } = await damagedStore()
    const page = await store.listCheckpointInfo('s')
    assert.deepEqual(ids(page), [made[0], made[3]])
    assert.deepEqual(
      page.damaged.map(({ id, code }) => [id, code]),
      [
        [made[1], 'WAYMARK_CORRUPT'],
        [made[2], 'WAYMARK_CORRUPT'],
      ],
    )
    const [newest, oldest] = page.checkpoints.map(({ timestamp }) => timestamp)
    for (const { timestamp } of page.damaged) assert.ok(newest >= timestamp && timestamp >= oldest)
    assert.equal(page.total, 4)
  })

  it('stop a walk, which goes on if it is asked to, or passes over them', async () => {
    const { store, made } = await damagedStore()
    const walk = store.checkpoints('s')
    assert.equal((await walk.next()).value.id, made[0])
    await assert.rejects(walk.next(), { code: 'WAYMARK_CORRUPT' })
    await assert.rejects(walk.next(), { code: 'WAYMARK_CORRUPT' })
    assert.equal((await walk.next()).value.id, made[3])
    assert.equal((await walk.next()).done, true)

    const whole = []
    for await (const { id } of store.checkpoints('s', { skipDamaged: true })) whole.push(id)
    assert.deepEqual(whole, [made[0], made[3]])
  })

  it('are passed over by a walk whether they are cut off or changed', async () => {
    const { store, made, file } = await damagedStore()
    writeFileSync(file(0), readFileSync(file(0), 'utf8').replace('"pending"', '"pendinG"'))
    const whole = []
    for await (const { id } of store.checkpoints('s', { skipDamaged: true })) whole.push(id)
    assert.deepEqual(whole, [made[3]])
  })

  it('under the name of another are named, whatever their encoding', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (const compress of [false, true]) {
      const [newer, older] = await makeMany(store, 2, { compress })
      const file = (id) => join(base, 's/checkpoints', `${id}.json${compress ? '.gz' : ''}`)
      writeFileSync(file(newer), readFileSync(file(older)))
      const page = await store.listCheckpointInfo('s')
      assert.equal(ids(page).includes(newer), false)
      assert.deepEqual(
        page.damaged.map(({ id, code }) => [id, code]).filter(([id]) => id === newer),
        [[newer, 'WAYMARK_CORRUPT']],
      )
    }
  })

  it('that another program wrote are read whole, in any layout', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s', { lastCheckpointId: 'cp-1' }), { ...OPTIONS, label: 'l' })
    const [before] = (await store.listCheckpointInfo('s')).checkpoints
    const [path] = checkpointFiles(base, 's')
    const value = JSON.parse(readFileSync(path, 'utf8'))
    for (const indent of [0, 1, 4, '\t']) {
      const text = JSON.stringify(value, null, indent)
      writeFileSync(path, text)
      const [info] = (await store.listCheckpointInfo('s')).checkpoints
      assert.deepEqual(info, { ...before, sizeBytes: text.length })
    }
    const { label: _, parent: __, taskCount: ___, agentCount: ____, integrity: _____, ...original } = value
    writeFileSync(path, JSON.stringify(original, null, 2))
    const [info] = (await store.listCheckpointInfo('s')).checkpoints
    assert.equal(info.taskCount, 3)
    assert.equal('parent' in info, false)
  })

  it('and files that are gone do not stop a list that is under way', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = await makeMany(store, 3)
    const walk = store.checkpoints('s')
    await walk.next()
    rmSync(join(base, 's/checkpoints', `${made[1]}.json`))
    assert.equal((await walk.next()).value.id, made[2])
  })
})

describe('the limit', () => {
  it('takes no notice of a file of marks that somebody wrote into or removed', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, 2)
    for (const spoil of [(path) => appendFileSync(path, 'x'), (path) => rmSync(path), () => {}]) {
      await makeMany(store, 3)
      assert.equal(checkpointFiles(base, 's').length, 2)
      spoil(join(base, 's/checkpoints/.names'))
    }
  })

  it('holds across stores that write in turns', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, 3), await openStore(base, 3)]
    for (let round = 0; round < 8; round += 1) await makeMany(stores[round % 2], 1 + (round % 3))
    assert.equal(checkpointFiles(base, 's').length, 3)
    assert.ok(readdirSync(join(base, 's/checkpoints')).length <= 4)
  })
})

describe('the event loop', () => {
  it('gets a turn between every two checkpoints of a list', async () => {
    const store = await openStore(scratchDirectory())
    const count = 8
    const taskTree = makeTree(200, { prompt: 'long '.repeat(100) })
    for (let number = 0; number < count; number += 1) await checkpointOf(store, makeSession('s', { taskTree }))
    let turns = 0
    let isOver = false
    const countTurns = () => {
      turns += 1
      if (!isOver) setImmediate(countTurns)
    }
    setImmediate(countTurns)
    const { checkpoints } = await store.listCheckpoints('s')
    isOver = true
    assert.equal(checkpoints.length, count)
    assert.ok(turns >= count, `${turns} turns`)
  })
})
