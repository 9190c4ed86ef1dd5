import assert from 'node:assert/strict'
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { emptyStore } from '../support/invalid-values.mjs'
import { checkpointFiles } from '../support/original-format.mjs'
import { makeAgent, makeSession, makeTree } from '../support/sessions.mjs'
import {
  OPTIONS,
  checkpointOf,
  newCheckpointIds,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

const ids = (page) => page.checkpoints.map(({ id }) => id)

onEveryBackend('listCheckpointInfo', (open) => {
  for (const compress of [false, true]) {
    it(`lists checkpoints without payloads, ${compress ? 'compressed' : 'plain'}`, async () => {
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

    it(`lists long descriptions and metadata in full, ${compress ? 'compressed' : 'plain'}`, async () => {
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

  it('omits members that a checkpoint does not have', async () => {
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

  it('returns nothing for an unknown session', async () => {
    const store = await open()
    assert.deepEqual(await store.listCheckpointInfo('unknown'), { checkpoints: [], total: 0, damaged: [] })
  })

  it('pages correctly while checkpoints are created and deleted', async () => {
    const store = await open()
    const made = await newCheckpointIds(store, 7)
    const first = await store.listCheckpointInfo('s', { limit: 3 })
    assert.deepEqual(ids(first), made.slice(0, 3))
    assert.equal(first.total, 7)
    // Delete the checkpoint of the cursor and a later one, and create a new one.
    await store.deleteCheckpoint('s', made[2])
    await store.deleteCheckpoint('s', made[4])
    await newCheckpointIds(store, 1)
    const second = await store.listCheckpointInfo('s', { limit: 2, cursor: first.cursor })
    assert.deepEqual(ids(second), [made[3], made[5]])
    const third = await store.listCheckpointInfo('s', { limit: 2, cursor: second.cursor })
    assert.deepEqual(ids(third), [made[6]])
    assert.equal(third.cursor, undefined)
    assert.equal('cursor' in third, false)
  })

  it('has no cursor after a page that ends with the last checkpoint', async () => {
    const store = await open()
    const made = await newCheckpointIds(store, 4)
    const first = await store.listCheckpointInfo('s', { limit: 2 })
    const second = await store.listCheckpointInfo('s', { limit: 2, cursor: first.cursor })
    assert.deepEqual([...ids(first), ...ids(second)], made)
    assert.equal(second.cursor, undefined)
  })

  it('filters by trigger, label and time', async () => {
    const store = await open()
    const [auto] = await newCheckpointIds(store, 1, { trigger: 'auto' })
    const [labelled] = await newCheckpointIds(store, 1, { trigger: 'manual', label: 'release 1', compress: true })
    const [other] = await newCheckpointIds(store, 1, { trigger: 'manual', label: 'release 2' })
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

  it('lists a checkpoint once that is converted between two pages', async () => {
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

  it('rejects an invalid cursor, limit, time or label', async () => {
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

describe('lists with damaged files', () => {
  const damagedStore = async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = await newCheckpointIds(store, 4)
    const file = (index) => join(base, 's/checkpoints', `${made[index]}.json`)
    truncateSync(file(1), 0)
    truncateSync(file(2), 300)
    return { base, store, made, file }
  }

  it('name the damaged files and hide no other', async () => {
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

  it('checkpoints() rejects at a damaged file, continues if asked to, or skips it with skipDamaged', async () => {
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

  it('checkpoints() skips files that are cut off and files that were changed', async () => {
    const { store, made, file } = await damagedStore()
    writeFileSync(file(0), readFileSync(file(0), 'utf8').replace('"pending"', '"pendinG"'))
    const whole = []
    for await (const { id } of store.checkpoints('s', { skipDamaged: true })) whole.push(id)
    assert.deepEqual(whole, [made[3]])
  })

  it('name a file stored under the id of another, whatever its encoding', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (const compress of [false, true]) {
      const [newer, older] = await newCheckpointIds(store, 2, { compress })
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

  it('read files of other programs whole, in any layout', async () => {
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

  it('skip files that are deleted while the list is read', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = await newCheckpointIds(store, 3)
    const walk = store.checkpoints('s')
    await walk.next()
    rmSync(join(base, 's/checkpoints', `${made[1]}.json`))
    assert.equal((await walk.next()).value.id, made[2])
  })
})

describe('the event loop', () => {
  it('runs between every two checkpoints of a list', async () => {
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

describe('a page of listCheckpointInfo', () => {
  it('is full however many files are damaged, and the last one has no cursor', async () => {
    const store = await openStore()
    const created = []
    for (let number = 0; number < 10; number += 1) {
      const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
      created.unshift(checkpointId)
      if ([9, 8, 6, 3, 0].includes(number)) writeFileSync(path, '{"damaged')
    }
    for (const limit of [1, 2, 3, 4, 5, 9, 10, 11]) {
      const [seen, sizes] = [[], []]
      let cursor
      do {
        const page = await store.listCheckpointInfo('s', { limit, cursor })
        seen.push(...page.checkpoints.map(({ id }) => id), ...page.damaged.map(({ id }) => id))
        sizes.push(page.checkpoints.length)
        cursor = page.cursor
        assert.equal(page.total, 10)
      } while (cursor !== undefined)
      assert.deepEqual(seen.toSorted(), created.toSorted(), `limit ${limit}`)
      for (const size of sizes.slice(0, -1)) assert.equal(size, limit, `pages of ${sizes}, limit ${limit}`)
    }
  })
})

describe('listCheckpoints arguments', () => {
  it('limit and offset must be whole numbers', async () => {
    const { store } = await emptyStore()
    for (const value of [-1, 1.5, NaN, -Infinity, '1', {}, true]) {
      await assert.rejects(store.listCheckpoints('s', value), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^limit must be /,
      })
      await assert.rejects(store.listCheckpoints('s', 1, value), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^offset must be /,
      })
    }
    assert.equal((await store.listCheckpoints('s', null, null)).total, 0)
  })
})

onEveryBackend('listCheckpoints', (open) => {
  it('lists newest first in call order, even within one millisecond', async () => {
    const store = await open()
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: index % 2 === 0, description: `${index}` }),
      ),
    )
    const { checkpoints, total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual(
      checkpoints.map((checkpoint) => checkpoint.id),
      made.map((result) => result.checkpointId).toReversed(),
    )
    assert.deepEqual(checkpoints.map((checkpoint) => checkpoint.description).slice(0, 3), ['39', '38', '37'])
    assert.deepEqual([total, damaged], [40, []])
    assert.equal((await store.getLatestCheckpoint('s')).description, '39')
  })

  it('pages its list; total counts all', async () => {
    const store = await open()
    for (let index = 0; index < 5; index += 1) {
      await checkpointOf(store, makeSession('s'), { ...OPTIONS, description: `${index}` })
    }
    const page = async (...paging) => {
      const { checkpoints, total } = await store.listCheckpoints('s', ...paging)
      assert.equal(total, 5)
      return checkpoints.map((checkpoint) => checkpoint.description).join('')
    }
    assert.equal(await page(), '43210')
    assert.equal(await page(0), '43210')
    assert.equal(await page(2), '43')
    assert.equal(await page(2, 1), '32')
    assert.equal(await page(undefined, 3), '10')
    assert.equal(await page(10, 4), '0')
    assert.equal(await page(1, 9), '')
  })
})
