import assert from 'node:assert/strict'
import { cpSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const QUICK = { durability: 'relaxed' }

/** Creates a checkpoint; resolves to its full name. */
async function madeIn(store, id, options = {}) {
  const { checkpointId } = await checkpointOf(store, makeSession(id), { ...OPTIONS, ...options })
  return `${id}/${checkpointId}`
}

/** All pages; `between` runs after each page with everything listed so far. */
async function walk(store, options, between = () => {}) {
  const seen = []
  let cursor
  do {
    const page = await store.listAllCheckpoints({ ...options, cursor })
    seen.push(...names(page))
    cursor = page.cursor
    await between(seen)
  } while (cursor)
  return seen
}

/** `session/checkpoint` for each entry of a page. */
const names = (page) => page.checkpoints.map(({ sessionId, id }) => `${sessionId}/${id}`)

onEveryBackend('listAllCheckpoints', (open) => {
  it('lists newest first, each checkpoint as in its session, with the session id', async () => {
    const store = await open()
    const made = []
    for (const id of ['b', 'a', '🟦 é', 'a', 'b', 'b', 'a', '🟦 é']) {
      made.unshift(await madeIn(store, id, { compress: made.length % 2 === 0, description: `of "${id}"` }))
    }
    await store.agent('a', 'writer').save({ iteration: 1 })
    await store.pinCheckpoint(...made[3].split('/'))
    const page = await store.listAllCheckpoints()
    assert.deepEqual(names(page), made)
    assert.deepEqual([page.total, page.damaged, 'cursor' in page], [8, [], false])
    for (const sessionId of ['a', 'b', '🟦 é']) {
      const own = page.checkpoints.filter((info) => info.sessionId === sessionId)
      const { checkpoints } = await store.listCheckpointInfo(sessionId)
      assert.deepEqual(
        own,
        checkpoints.map((info) => Object.assign(info, { sessionId })),
      )
    }
    assert.equal(page.checkpoints[3].pinned, true)
  })

  it('returns nothing for an empty store', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    for (const options of [undefined, {}, { limit: 5 }, { trigger: 'auto' }]) {
      assert.deepEqual(await store.listAllCheckpoints(options), { checkpoints: [], total: 0, damaged: [] })
    }
  })

  it('filters by trigger, label and time; total counts all', async () => {
    const store = await open()
    const auto = await madeIn(store, 'a', { trigger: 'auto' })
    const first = await madeIn(store, 'b', { label: 'green "one"', compress: true })
    const second = await madeIn(store, 'a', { label: 'green "one"' })
    const error = await madeIn(store, 'c', { trigger: 'error', label: 'red' })
    const times = (await store.listAllCheckpoints()).checkpoints.map(({ timestamp }) => timestamp)
    const found = async (options) => {
      const page = await store.listAllCheckpoints(options)
      assert.equal(page.total, 4)
      return names(page)
    }
    assert.deepEqual(await found({ trigger: 'auto' }), [auto])
    assert.deepEqual(await found({ trigger: 'manual' }), [second, first])
    assert.deepEqual(await found({ trigger: 'milestone' }), [])
    assert.deepEqual(await found({ label: 'green "one"' }), [second, first])
    assert.deepEqual(await found({ label: 'green' }), [])
    assert.deepEqual(await found({ label: 'red', trigger: 'error' }), [error])
    assert.deepEqual(await found({ label: 'red', trigger: 'manual' }), [])
    assert.deepEqual(await found({ since: times[3] }), [error, second, first, auto])
    assert.deepEqual(await found({ since: new Date(times[0] + 1) }), [])
    assert.deepEqual(await found({ until: times[3] - 1 }), [])
    assert.deepEqual(await found({ since: -Infinity, until: new Date(times[0]) }), [error, second, first, auto])
    assert.deepEqual(await found({ trigger: 'manual', limit: 1 }), [second])
    assert.deepEqual(await found({ limit: 0 }), [error, second, first, auto])
    assert.deepEqual(await found({ limit: Infinity }), [error, second, first, auto])
  })

  it('filters by the timestamps of the checkpoints', async () => {
    const store = await open()
    const day = 86_400_000
    for (const id of ['a', 'b', 'a']) await madeIn(store, id)
    const { checkpoints } = await store.listAllCheckpoints()
    for (const { timestamp } of checkpoints) {
      const within = await store.listAllCheckpoints({ since: timestamp, until: timestamp })
      assert.deepEqual(
        within.checkpoints,
        checkpoints.filter((info) => info.timestamp === timestamp),
      )
    }
    const { timestamp } = checkpoints[0]
    assert.deepEqual(names(await store.listAllCheckpoints({ since: timestamp + day })), [])
    assert.deepEqual(names(await store.listAllCheckpoints({ since: 2, until: 1 })), [])
  })

  it('pages at any size, without a further page after the last', async () => {
    const store = await open()
    const made = []
    for (let number = 0; number < 12; number += 1) made.unshift(await madeIn(store, 'abc'[number % 3]))
    for (const limit of [1, 2, 3, 5, 6, 11, 12, 13]) {
      let pages = 0
      const seen = await walk(store, { limit }, () => (pages += 1))
      assert.deepEqual(seen, made)
      assert.equal(pages, Math.ceil(12 / limit))
    }
  })

  it('pages through filtered lists, however many checkpoints are skipped', async () => {
    const store = await open({ ...QUICK, maxCheckpointsPerSession: Infinity })
    const labelled = []
    for (let number = 0; number < 210; number += 1) {
      const isLabelled = number % 50 === 7
      const name = await madeIn(store, 'abc'[number % 3], isLabelled ? { label: 'rare', compress: true } : {})
      if (isLabelled) labelled.unshift(name)
    }
    for (const limit of [1, 2, 3, 100]) assert.deepEqual(await walk(store, { limit, label: 'rare' }), labelled)
    assert.equal((await store.listAllCheckpoints({ label: 'rare', limit: 1 })).total, 210)
  })

  it('neither repeats nor skips checkpoints while others are created and deleted', async () => {
    const store = await open({ ...QUICK, maxCheckpointsPerSession: Infinity })
    for (let round = 1; round <= 6; round += 1) {
      const before = []
      for (let number = 0; number < 40; number += 1) before.unshift(await madeIn(store, `s-${round}-${number % 4}`))
      const deletedUnseen = new Set()
      let step = round
      const remove = async (name, seen) => {
        await store.deleteCheckpoint(...name.split('/'))
        if (!seen.includes(name)) deletedUnseen.add(name)
      }
      const seen = await walk(store, { limit: 1 + (round % 5) }, async (shown) => {
        step += 1
        // The checkpoint of the cursor, a listed one and one still to come.
        if (step % 2 === 0) await remove(shown.at(-1), shown)
        if (step % 3 === 0) await remove(shown[(step * 7) % shown.length], shown)
        const ahead = before.filter((name) => !shown.includes(name) && !deletedUnseen.has(name))
        if (step % 4 === 0 && ahead.length > 0) await remove(ahead[(step * 5) % ahead.length], shown)
        if (step % 5 === 0) await madeIn(store, `s-${round}-${step % 4}`)
        if (step % 7 === 0) await madeIn(store, `a-new-session-${step}`)
      })
      assert.equal(new Set(seen).size, seen.length, 'none is shown twice')
      assert.deepEqual(
        seen.filter((name) => before.includes(name)),
        before.filter((name) => !deletedUnseen.has(name)),
      )
      for (const { id } of await store.sessionsInfo()) await store.deleteSession(id)
    }
  })

  it('pages correctly when the session of the cursor is deleted', async () => {
    const store = await open()
    const made = []
    for (const id of ['a', 'b', 'c', 'b', 'a', 'c', 'b', 'a']) made.unshift(await madeIn(store, id))
    const first = await store.listAllCheckpoints({ limit: 2 })
    assert.deepEqual(names(first), made.slice(0, 2))
    await store.deleteSession('b')
    const rest = await store.listAllCheckpoints({ cursor: first.cursor })
    assert.deepEqual(
      names(rest),
      made.slice(2).filter((name) => !name.startsWith('b/')),
    )
    assert.equal(rest.total, 5)
  })

  it('rejects invalid options and changes nothing', async () => {
    const store = await open()
    await madeIn(store, 's')
    await madeIn(store, 's')
    const { cursor } = await store.listCheckpointInfo('s', { limit: 1 })
    const wrong = [
      { cursor: '' },
      { cursor: 'x' },
      { cursor: 7 },
      { cursor: null },
      { cursor: '12/s' },
      { cursor: '12/../up.json' },
      { cursor: '12/s/../up.json' },
      { cursor: '12/s/notes.txt' },
      { cursor: '-1/s/cp-1-000001.json' },
      { cursor: 's/12/cp-1-000001.json' },
      // The cursor of listCheckpointInfo names no session.
      { cursor },
      { limit: -1 },
      { limit: 1.5 },
      { limit: '2' },
      { since: 'yesterday' },
      { since: new Date('no date') },
      { until: Number.NaN },
      { trigger: 'sometimes' },
      { label: '' },
      { label: 7 },
      { label: 'é'.repeat(101) },
    ]
    for (const options of wrong) {
      const [name] = Object.keys(options)
      await assert.rejects(store.listAllCheckpoints(options), ({ code, message }) => {
        assert.equal(code, 'WAYMARK_INVALID_ARGUMENT', message)
        assert.ok(message.startsWith(`options.${name} must be `), message)
        return true
      })
    }
    for (const options of [null, [], 'x', 5]) {
      await assert.rejects(store.listAllCheckpoints(options), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options must be an object; got /,
      })
    }
    assert.equal((await store.listAllCheckpoints()).total, 2)
  })
})

describe('listAllCheckpoints (files)', () => {
  it('finds labels that were set later and not removed ones', async () => {
    const store = await openStore()
    const [plain, renamed, bare] = [
      await madeIn(store, 'a'),
      await madeIn(store, 'b', { label: 'old' }),
      await madeIn(store, 'a', { label: 'old', compress: true }),
    ]
    await store.labelCheckpoint(...plain.split('/'), 'new')
    await store.labelCheckpoint(...renamed.split('/'), 'new')
    await store.labelCheckpoint(...bare.split('/'), null)
    assert.deepEqual(names(await store.listAllCheckpoints({ label: 'new' })), [renamed, plain])
    assert.deepEqual(names(await store.listAllCheckpoints({ label: 'old' })), [])
    const { checkpoints } = await store.listAllCheckpoints()
    assert.deepEqual(
      checkpoints.map(({ label }) => label),
      [undefined, 'new', 'new'],
    )
  })

  it('names damaged checkpoints with their paths, counts them, and hides no other', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const made = []
    for (const id of ['a', 'b', 'a', 'b', 'c']) made.unshift(await madeIn(store, id))
    const file = (name) => join(base, ...name.split('/').with(1, join('checkpoints', `${name.split('/')[1]}.json`)))
    truncateSync(file(made[1]), 0)
    truncateSync(file(made[3]), 200)
    const page = await store.listAllCheckpoints()
    assert.deepEqual(names(page), [made[0], made[2], made[4]])
    assert.deepEqual(
      page.damaged.map(({ id, path, code }) => [id, path, code]),
      [made[1], made[3]].map((name) => [name.split('/')[1], file(name), 'WAYMARK_CORRUPT']),
    )
    assert.equal(page.total, 5)
    const seen = []
    const damaged = []
    let cursor
    do {
      const next = await store.listAllCheckpoints({ limit: 1, cursor })
      seen.push(...names(next))
      damaged.push(...next.damaged.map(({ id }) => id))
      cursor = next.cursor
    } while (cursor)
    assert.deepEqual(seen, [made[0], made[2], made[4]])
    assert.deepEqual(damaged, [made[1].split('/')[1], made[3].split('/')[1]])
  })

  it('lists checkpoint ids that two sessions share for both, at any page size', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    for (let number = 0; number < 4; number += 1) await madeIn(store, 'original', { compress: number % 2 === 1 })
    cpSync(join(base, 'original'), join(base, 'copy'), { recursive: true })
    cpSync(join(base, 'original'), join(base, 'second copy'), { recursive: true })
    const { checkpoints, total } = await store.listAllCheckpoints()
    assert.equal(total, 12)
    const expected = (await store.listCheckpointInfo('original')).checkpoints.flatMap(({ id }) =>
      ['copy', 'original', 'second copy'].map((session) => `${session}/${id}`),
    )
    assert.deepEqual(names({ checkpoints }), expected)
    for (const limit of [1, 2, 5]) assert.deepEqual(await walk(store, { limit }), expected)
  })
})
