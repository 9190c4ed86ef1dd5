import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { ACTIVE_STATUSES, RESTING_STATUSES, makeSession, throughJson, withoutTree } from '../support/sessions.mjs'
import { isLockFile } from '../support/snapshot.mjs'
import { checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const HOUR = 3_600_000

/** A session at rest whose expiry has passed. */
const over = (id, overrides = {}) => makeSession(id, { status: 'paused', expiresAt: 1000, ...overrides })

const statusOf = async (store, id) => (await store.loadSession(id)).status

const idsOf = (lines) => lines.map(({ sessionId }) => sessionId)

/** The paths and bytes of all files below a directory, without lock files. */
function filesIn(base) {
  const files = readdirSync(base, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !isLockFile(entry.name),
  )
  const paths = files.map((file) => join(file.parentPath ?? file.path, file.name)).toSorted()
  return paths.map((path) => [path, readFileSync(path, 'latin1')])
}

onEveryBackend('expireSessions', (open) => {
  it('archives sessions past their expiry and changes nothing else of them', async () => {
    const store = await open()
    const session = over('s', {
      name: 'two\nlines "quoted" \\ 🟦 \ud800',
      metadata: JSON.parse('{"2": 1e21, "1": 5e-324, "status": "active", "__proto__": {"deep": [[], {}]}, "": null}'),
      errors: [{ status: 'active', message: 'expiresAt' }],
      own: { kept: true },
    })
    await store.saveSession(session)
    await store.saveTaskTree('s', session.taskTree)
    await store.saveTaskResult('s', 'task-0', 'done')
    await checkpointOf(store, session)
    await store.agent('s', 'a').save({ iteration: 1 })
    const before = await store.loadSession('s')
    const { checkpoints } = await store.listCheckpoints('s')
    assert.deepEqual(await store.expireSessions(2000), [
      { sessionId: 's', status: 'paused', expiresAt: 1000, action: 'archived' },
    ])
    const after = await store.loadSession('s')
    assert.deepEqual(Object.keys(after), Object.keys(before))
    for (const [member, value] of Object.entries(before)) {
      const expected = member === 'status' ? 'archived' : value
      assert.equal(JSON.stringify(after[member]), JSON.stringify(expected), member)
    }
    assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    assert.equal(await store.loadTaskResult('s', 'task-0'), 'done')
    assert.deepEqual((await store.listCheckpoints('s')).checkpoints, checkpoints)
    assert.equal((await store.agent('s', 'a').list()).total, 1)
    assert.equal((await store.verifySession('s')).whole, true)
    assert.equal((await store.sessionsInfo())[0].status, 'archived')
  })

  it('with action delete removes sessions with everything they have', async () => {
    const store = await open()
    await store.saveSession(over('gone', { status: 'failed' }))
    await checkpointOf(store, over('gone'))
    await store.agent('gone', 'a').save({ iteration: 1 })
    await store.saveSession(over('kept', { expiresAt: 3000 }))
    assert.deepEqual(await store.expireSessions(2000, { action: 'delete' }), [
      { sessionId: 'gone', status: 'failed', expiresAt: 1000, action: 'deleted' },
    ])
    assert.deepEqual(await store.listSessions(), ['kept'])
    assert.equal(await store.loadSession('gone'), null)
    assert.equal((await store.listAllCheckpoints()).total, 0)
    assert.deepEqual(await store.listAgents('gone'), [])
    assert.equal(await statusOf(store, 'kept'), 'paused')
    const again = await checkpointOf(store, makeSession('gone'))
    assert.equal(again.success, true)
  })

  for (const action of ['archive', 'delete']) {
    it(`skips sessions that are in use and takes all others, action ${action}`, async () => {
      const store = await open()
      for (const status of [...ACTIVE_STATUSES, ...RESTING_STATUSES]) await store.saveSession(over(status, { status }))
      for (const expiresAt of [-1e300, -1, 0]) {
        for (const status of ACTIVE_STATUSES)
          await store.saveSession(over(`${status}${expiresAt}`, { status, expiresAt }))
      }
      const ended = await store.expireSessions(Infinity, { action })
      assert.deepEqual(
        ended.map(({ sessionId, status }) => [sessionId, status]),
        RESTING_STATUSES.toSorted().map((status) => [status, status]),
      )
      const left = await store.listSessions()
      assert.equal(left.length, 16 + (action === 'archive' ? 3 : 0))
      for (const id of left) {
        const { status } = await store.loadSession(id)
        if (RESTING_STATUSES.includes(id)) assert.equal(status, 'archived')
        else assert.ok(id.startsWith(status), `${id} is ${status}`)
      }
    })
  }

  it('archives once; an archived session can still be deleted', async () => {
    const store = await open()
    await store.saveSession(over('s'))
    assert.deepEqual(idsOf(await store.expireSessions(2000)), ['s'])
    assert.deepEqual(await store.expireSessions(2000), [])
    assert.deepEqual(await store.expireSessions(2000, { action: 'archive' }), [])
    assert.deepEqual(await store.expireSessions(500, { action: 'delete' }), [])
    assert.deepEqual(await store.expireSessions(2000, { action: 'delete' }), [
      { sessionId: 's', status: 'archived', expiresAt: 1000, action: 'deleted' },
    ])
    assert.deepEqual(await store.listSessions(), [])
  })

  it('includes a session whose expiry is exactly now', async () => {
    const store = await open()
    for (const expiresAt of [999, 1000, 1000.5, 1001]) await store.saveSession(over(`at-${expiresAt}`, { expiresAt }))
    assert.deepEqual(await store.expireSessions(998.9), [])
    assert.deepEqual(idsOf(await store.expireSessions(1000)), ['at-1000', 'at-999'])
    assert.deepEqual(idsOf(await store.expireSessions(1000.5)), ['at-1000.5'])
    assert.deepEqual(idsOf(await store.expireSessions(new Date(1001))), ['at-1001'])
  })

  it('accepts a number, a Date or no time for the current one', async () => {
    const store = await open()
    const now = Date.now()
    await store.saveSession(over('past', { expiresAt: now - HOUR }))
    await store.saveSession(over('to come', { expiresAt: now + HOUR }))
    assert.deepEqual(await store.expireSessions(now - 2 * HOUR), [])
    assert.deepEqual(await store.expireSessions(new Date(now - 2 * HOUR)), [])
    assert.deepEqual(await store.expireSessions(-Infinity), [])
    assert.deepEqual(await store.expireSessions(0, {}), [])
    assert.deepEqual(idsOf(await store.expireSessions()), ['past'])
    assert.deepEqual(idsOf(await store.expireSessions(undefined, { action: 'delete' })), ['past'])
    assert.deepEqual(idsOf(await store.expireSessions(new Date(now + HOUR), { action: undefined })), ['to come'])
    assert.deepEqual(await store.listSessions(), ['to come'])
  })

  it('skips sessions without a numeric expiresAt', async () => {
    const store = await open()
    const times = [undefined, null, '1000', '', true, [1000], { valueOf: 1000 }, new Date(1000)]
    for (const [index, expiresAt] of times.entries()) await store.saveSession(over(`s-${index}`, { expiresAt }))
    assert.deepEqual(await store.expireSessions(Infinity, { action: 'delete' }), [])
    assert.equal((await store.listSessions()).length, times.length)
    for (const id of await store.listSessions()) assert.equal(await statusOf(store, id), 'paused')
  })

  it('archives a session without a status', async () => {
    const store = await open()
    await store.saveSession({ id: 's', expiresAt: 5, taskTree: {}, checkpointIds: [] })
    assert.deepEqual(await store.expireSessions(10), [
      { sessionId: 's', status: null, expiresAt: 5, action: 'archived' },
    ])
    assert.deepEqual(await store.loadSession('s'), { id: 's', expiresAt: 5, checkpointIds: [], status: 'archived' })
  })

  it('lists sessions by id with the expiry as stored', async () => {
    const store = await open()
    const times = { b: 1e21, a: -5, c: 0.25, ä: 0 }
    for (const [id, expiresAt] of Object.entries(times)) await store.saveSession(over(id, { expiresAt }))
    const ended = await store.expireSessions(1e22)
    assert.deepEqual(
      ended.map(({ sessionId, expiresAt }) => [sessionId, expiresAt]),
      [
        ['a', -5],
        ['b', 1e21],
        ['c', 0.25],
        ['ä', 0],
      ],
    )
  })

  it('keeps the previous version where versions are kept', async () => {
    const store = await open({ keepPrevious: 1 })
    const session = over('s')
    await store.saveSession(session)
    await store.expireSessions(2000)
    assert.equal(await statusOf(store, 's'), 'archived')
    assert.deepEqual(await store.loadSession('s', { version: -1 }), withoutTree(session))
  })

  it('archives each session once for concurrent calls', async () => {
    const store = await open()
    for (let number = 0; number < 10; number += 1) await store.saveSession(over(`s-${number}`))
    const answers = await Promise.all(Array.from({ length: 8 }, () => store.expireSessions(2000)))
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), await store.listSessions())
  })

  it('returns nothing for an empty store and for sessions that were never saved', async () => {
    const store = await open()
    assert.deepEqual(await store.expireSessions(), [])
    await checkpointOf(store, over('checkpoints only'))
    assert.deepEqual(await store.expireSessions(Infinity, { action: 'delete' }), [])
    assert.equal((await store.listCheckpointInfo('checkpoints only')).total, 1)
  })

  it('changes nothing for invalid arguments', async () => {
    const store = await open()
    await store.saveSession(over('s'))
    const time = /^now must be a number of milliseconds since 1970, or a Date; got /
    const action = /^options\.action must be "archive" or "delete"; got /
    const wrong = [
      ...[null, '2000', Number.NaN, true, {}, [], 10n, new Date('no date'), { action: 'delete' }].map((now) => [
        [now],
        time,
      ]),
      ...[null, [], 'delete', 5].map((options) => [[2000, options], /^options must be an object; got /]),
      ...['remove', '', null, 5, {}, ['delete']].map((value) => [[2000, { action: value }], action]),
    ]
    for (const [args, message] of wrong) {
      await assert.rejects(store.expireSessions(...args), { code: 'WAYMARK_INVALID_ARGUMENT', message })
    }
    assert.equal(await statusOf(store, 's'), 'paused')
  })
})

describe('expireSessions (files)', () => {
  it('writes the two-space layout, whatever layout the file had', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const session = over('ours', { name: 'é \u2028 "x"' })
    const { path } = await store.saveSession(session)
    const theirs = join(base, 'theirs', 'session.json')
    mkdirSync(join(base, 'theirs'))
    writeFileSync(theirs, JSON.stringify(withoutTree({ ...session, id: 'theirs' }), null, '\t'))
    assert.equal((await store.expireSessions(2000)).length, 2)
    const archived = throughJson({ ...session, taskTree: undefined, status: 'archived' })
    assert.equal(readFileSync(path, 'utf8'), JSON.stringify(archived, null, 2))
    assert.equal(readFileSync(theirs, 'utf8'), JSON.stringify({ ...archived, id: 'theirs' }, null, 2))
    if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o600)
  })

  it('keeps numbers and strings as another program spelt them', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    mkdirSync(join(base, 's'))
    const path = join(base, 's', 'session.json')
    writeFileSync(path, '{"st\\u0061tus":"p\\u0061used","expiresAt":1.0e3,"n":1.50,"text":"\\u0041\\/"}')
    assert.deepEqual(await store.expireSessions(2000), [
      { sessionId: 's', status: 'paused', expiresAt: 1000, action: 'archived' },
    ])
    const { expiresAt, n, text, status } = JSON.parse(readFileSync(path, 'utf8'))
    assert.deepEqual([expiresAt, n, text, status], [1000, 1.5, 'A/', 'archived'])
    assert.match(readFileSync(path, 'utf8'), /"n": 1\.50,\n {2}"text": "\\u0041\\\/"/)
  })

  it('leaves damaged documents unchanged and continues with the others', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const damage = {
      'a-cut-off': (path) => truncateSync(path, 200),
      'b-empty': (path) => truncateSync(path, 0),
      'c-no-object': (path) => writeFileSync(path, '["status", "paused"]'),
      'd-no-text': (path) => writeFileSync(path, Buffer.from('7b22657870697265734174223a31ff7d', 'hex')),
      'e-more': (path) => writeFileSync(path, `${readFileSync(path, 'utf8')}}`),
      'f-no-file': (path) => {
        rmSync(path)
        mkdirSync(path)
      },
    }
    for (const [id, spoil] of Object.entries(damage)) {
      const { path } = await store.saveSession(over(id))
      spoil(path)
    }
    const before = filesIn(base)
    await store.saveSession(over('z-whole'))
    for (const action of ['archive', 'delete']) {
      assert.deepEqual(idsOf(await store.expireSessions(2000, { action })), ['z-whole'])
    }
    assert.deepEqual(
      filesIn(base).filter(([, bytes]) => bytes !== ''),
      before.filter(([, bytes]) => bytes !== ''),
    )
  })

  it('archives each session once for several stores at the same time', async () => {
    const base = scratchDirectory()
    const stores = await Promise.all([1, 2, 3].map(() => openStore(base, { durability: 'relaxed' })))
    for (let number = 0; number < 20; number += 1) await stores[0].saveSession(over(`s-${number}`))
    const answers = await Promise.all(stores.map((store) => store.expireSessions(2000)))
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), await stores[0].listSessions())
  })
})

onEveryBackend('expireSessions with an unusual status', (open) => {
  // The status is free text: it must be escaped in the result.
  it('returns the status unchanged, whatever characters it has', async () => {
    for (const status of ['two\nlines', 'back\\slash', 'a\\tab', '\u0000', '"quoted"']) {
      const store = await open()
      await store.saveSession(over('s', { status }))
      assert.deepEqual(await store.expireSessions(2000), [
        { sessionId: 's', status, expiresAt: 1000, action: 'archived' },
      ])
    }
  })
})

describe('expireSessions with unusual documents (files)', () => {
  // One unreadable document must not end the call.
  it('skips a document beyond maxReadBytes and continues', async () => {
    const store = await openStore(scratchDirectory(), { maxReadBytes: 6000 })
    await store.saveSession(over('a-large', { metadata: { text: 'x'.repeat(9000) } }))
    await store.saveSession(over('b-small'))
    const ended = await store.expireSessions(2000)
    assert.deepEqual(
      ended.map(({ sessionId }) => sessionId),
      ['b-small'],
    )
  })

  // JSON can spell numbers beyond the range of a double.
  it('skips an expiry beyond all numbers', async () => {
    const store = await openStore()
    const { path } = await store.saveSession(over('s'))
    writeFileSync(path, readFileSync(path, 'utf8').replace('"expiresAt": 1000', '"expiresAt": 1e999'))
    assert.deepEqual(await store.expireSessions(Infinity), [])
  })
})
