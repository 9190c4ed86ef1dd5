import assert from 'node:assert/strict'
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession, throughJson } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const NO_MODES = process.platform === 'win32' && 'Windows has no modes'

const QUICK = { durability: 'relaxed' }

const NO_CHECKPOINTS = { checkpointCount: 0, pinnedCount: 0, agentCheckpointCount: 0 }

const ids = (page) => page.checkpoints.map(({ id }) => id)

/** `session/checkpoint` for each line of a page. */
const names = (page) => page.checkpoints.map(({ sessionId, id }) => `${sessionId}/${id}`)

const sizeOf = async (store, id) => (await store.getSessionStorageStats(id)).totalSizeBytes

/** Makes a checkpoint; gives its full name. */
async function madeIn(store, id, options = {}) {
  const { checkpointId } = await checkpointOf(store, makeSession(id), { ...OPTIONS, ...options })
  return `${id}/${checkpointId}`
}

/** All pages; `between` runs after each, and is given all that were shown so far. */
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

onEveryBackend('a line for each session', (open) => {
  it('has all that is known of it without reading a checkpoint', async () => {
    const store = await open()
    const session = makeSession('s')
    Object.assign(session.metrics, {
      totalTasks: 9,
      completedTasks: 4,
      failedTasks: 2,
      pendingTasks: 1,
      inProgressTasks: 2,
    })
    await store.saveSession(session)
    await store.saveTaskTree('s', session.taskTree)
    await store.saveTaskResult('s', 'task-0', { success: true })
    const made = []
    for (const compress of [false, true, false]) {
      made.push(await checkpointOf(store, session, { ...OPTIONS, compress }))
    }
    await store.pinCheckpoint('s', made[0].checkpointId)
    await store.pinCheckpoint('s', made[1].checkpointId)
    await store.agent('s', 'writer').save({ iteration: 1 })
    await store.agent('s', 'writer').save({ iteration: 2 }, { compress: true })
    await store.agent('s', 'critic').save({ iteration: 1 })
    const { timestamp } = await store.getLatestCheckpoint('s')
    assert.deepEqual(await store.sessionsInfo(), [
      {
        id: 's',
        name: 'A session',
        status: 'active',
        createdAt: 1_700_000_000_000,
        expiresAt: 1_700_604_800_000,
        tasks: { total: 9, completed: 4, failed: 2, pending: 1, inProgress: 2 },
        checkpointCount: 3,
        pinnedCount: 2,
        agentCheckpointCount: 3,
        newestCheckpoint: { id: made[2].checkpointId, timestamp },
        sizeBytes: await sizeOf(store, 's'),
      },
    ])
  })

  it('says where the session was forked from', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    const forked = await store.forkSession({ sessionId: 's', checkpointId, newSessionId: 'what-if' })
    assert.equal(forked.success, true, forked.error)
    const [source, fork] = await store.sessionsInfo()
    assert.deepEqual([source.id, fork.id], ['s', 'what-if'])
    assert.deepEqual(fork.forkedFrom, { sessionId: 's', checkpointId })
    assert.deepEqual(fork.newestCheckpoint.id, forked.checkpointId)
    assert.equal('forkedFrom' in source, false)
  })

  it('is there for one that has only a document, only checkpoints, or only those of agents', async () => {
    const store = await open()
    await store.saveSession(makeSession('document'))
    await checkpointOf(store, makeSession('checkpoints'))
    await store.agent('agents', 'a').save({ iteration: 1 })
    await store.createSessionDirectory('nothing')
    const infos = await store.sessionsInfo()
    assert.deepEqual(
      infos.map((info) => [info.id, info.checkpointCount, info.agentCheckpointCount, info.name]),
      [
        ['agents', 0, 1, undefined],
        ['checkpoints', 1, 0, undefined],
        ['document', 0, 0, 'A session'],
      ],
    )
    const [agents, checkpoints, document] = infos
    const unknown = ['name', 'status', 'createdAt', 'expiresAt', 'forkedFrom', 'tasks', 'damaged']
    for (const member of unknown) {
      assert.equal(member in agents, false)
      assert.equal(member in checkpoints, false)
    }
    assert.equal('newestCheckpoint' in agents, false)
    assert.equal('newestCheckpoint' in document, false)
    assert.ok(checkpoints.newestCheckpoint.id.startsWith('cp-'))
  })

  it('can be had for one session alone', async () => {
    const store = await open()
    for (const id of ['a', 'b', 'c']) await store.saveSession(makeSession(id))
    await checkpointOf(store, makeSession('only-checkpoints'))
    await store.createSessionDirectory('empty')
    const lease = await store.acquireSession('b', { owner: 'somebody', ttlMs: 3_600_000 })
    for (const info of await store.sessionsInfo()) {
      const own = await store.sessionInfo(info.id)
      // What is left of the lease is added to a clock that goes on.
      if (own.lease) own.lease.expiresAt = info.lease.expiresAt
      assert.deepEqual(own, info)
    }
    assert.equal((await store.sessionInfo('b')).lease.owner, 'somebody')
    assert.deepEqual([await store.sessionInfo('empty'), await store.sessionInfo('unknown')], [null, null])
    await assert.rejects(store.sessionInfo('../a'), { code: 'WAYMARK_INVALID_ID' })
    await lease.release()
  })

  it('is no line at all in an empty store, and none for a session that was deleted', async () => {
    const store = await open()
    assert.deepEqual(await store.sessionsInfo(), [])
    await store.saveSession(makeSession('s'))
    await checkpointOf(store, makeSession('s'))
    await store.deleteSession('s')
    assert.deepEqual(await store.sessionsInfo(), [])
  })

  it('keeps names and numbers as they are, however unusual', async () => {
    const store = await open()
    const named = ['', '"quoted"', "it's", 'two\nlines\r\n\ttabbed', '\\ \u0000 \u2028', '🟦 検査点', '\ud800', '</x>']
    const numbers = [0, -1, 0.1, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, -0, 1.5, 42]
    for (const [index, name] of named.entries()) {
      const session = makeSession(`s-${index}`, { name, createdAt: numbers[index], expiresAt: numbers.at(-index - 1) })
      session.metrics = { totalTasks: numbers[index], failedTasks: 1e300 }
      await store.saveSession(session)
    }
    for (const info of await store.sessionsInfo()) {
      const { name, createdAt, expiresAt, metrics } = await store.loadSession(info.id)
      assert.deepEqual(
        { name: info.name, createdAt: info.createdAt, expiresAt: info.expiresAt, tasks: info.tasks },
        { name, createdAt, expiresAt, tasks: { total: metrics.totalTasks, failed: 1e300 } },
      )
      assert.equal(info.name, named[Number(info.id.slice(2))])
    }
  })

  it('counts tasks by those metrics that are numbers, and by no others', async () => {
    const store = await open()
    const metrics = [
      [undefined, undefined],
      [null, undefined],
      [[1, 2], undefined],
      ['many', undefined],
      [{}, undefined],
      [{ totalTasks: '3', completedTasks: null, failedTasks: [1], pendingTasks: {}, inProgressTasks: true }, undefined],
      [{ totalTasks: 3, completedTasks: '1' }, { total: 3 }],
      [{ inProgressTasks: 0 }, { inProgress: 0 }],
      [
        { totalTasks: 1.5, failedTasks: -2, nested: { pendingTasks: 7 } },
        { total: 1.5, failed: -2 },
      ],
    ]
    for (const [index, [value]] of metrics.entries()) {
      await store.saveSession(makeSession(`s-${index}`, { metrics: value }))
    }
    const infos = await store.sessionsInfo()
    assert.deepEqual(
      infos.map((info) => info.tasks),
      metrics.map(([, tasks]) => tasks),
    )
  })

  it('leaves out what the document does not have', async () => {
    const store = await open()
    await store.saveSession({ id: 's', taskTree: {}, checkpointIds: [] })
    const sizeBytes = await sizeOf(store, 's')
    assert.deepEqual(await store.sessionsInfo(), [{ id: 's', ...NO_CHECKPOINTS, sizeBytes }])
  })

  it('has the size that the statistics of each session give', async () => {
    const store = await open({ keepPrevious: 2 })
    await store.saveSession(makeSession('a'))
    await store.saveSession(makeSession('a', { name: 'again' }))
    await store.saveTaskTree('b', makeSession().taskTree)
    await checkpointOf(store, makeSession('b'), { ...OPTIONS, compress: true })
    await store.saveTaskResult('b', 'task-1', 'x'.repeat(5000))
    await store.agent('c', 'a').save({ context: new Uint8Array(3000) })
    const infos = await store.sessionsInfo()
    assert.equal(infos.length, 3)
    for (const { id, sizeBytes, checkpointCount } of infos) {
      const stats = await store.getSessionStorageStats(id)
      assert.deepEqual([sizeBytes, checkpointCount], [stats.totalSizeBytes, stats.checkpointCount])
      assert.ok(sizeBytes > 0)
    }
  })

  it('follows pins, deletions and the limit', async () => {
    const store = await open(3)
    const made = []
    for (let number = 0; number < 5; number += 1) made.push((await checkpointOf(store, makeSession('s'))).checkpointId)
    const counts = async () => {
      const [{ checkpointCount, pinnedCount, newestCheckpoint }] = await store.sessionsInfo()
      return [checkpointCount, pinnedCount, newestCheckpoint.id]
    }
    assert.deepEqual(await counts(), [3, 0, made[4]])
    await store.pinCheckpoint('s', made[2])
    assert.deepEqual(await counts(), [3, 1, made[4]])
    await store.deleteCheckpoint('s', made[4])
    assert.deepEqual(await counts(), [2, 1, made[3]])
    await store.unpinCheckpoint('s', made[2])
    assert.deepEqual(await counts(), [2, 0, made[3]])
    await store.deleteCheckpoint('s', made[2])
    assert.deepEqual(await counts(), [1, 0, made[3]])
  })

  it('is sorted by id, with three hundred of them', async () => {
    const store = await open(QUICK)
    const odd = ['Z', 'a b', 'é', '検査点', '🟦', '10', '9', '__proto__', 'constructor']
    const made = [...odd, ...Array.from({ length: 291 }, (_, index) => `session-${(index * 7919) % 1009}`)]
    await Promise.all(made.map((id) => store.saveSession(makeSession(id, { name: `name of ${id}` }))))
    const infos = await store.sessionsInfo()
    const sorted = made.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
    assert.deepEqual(
      infos.map((info) => [info.id, info.name]),
      sorted.map((id) => [id, `name of ${id}`]),
    )
    assert.deepEqual(await store.listSessions(), sorted)
  })
})

describe('a line for each session, from files', () => {
  it('says what is wrong with a damaged document, which hides nothing else and no other session', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const damage = {
      'cut-off': (path) => truncateSync(path, 40),
      empty: (path) => truncateSync(path, 0),
      'no-object': (path) => writeFileSync(path, '[1, 2]'),
      'no-text': (path) => writeFileSync(path, Buffer.from([0x7b, 0xff, 0x7d])),
      'no-file': (path) => {
        rmSync(path)
        mkdirSync(path)
      },
      'with "a quote"': (path) => writeFileSync(path, '{"name": "x",}'),
    }
    if (process.platform === 'win32') delete damage['with "a quote"']
    for (const [id, spoil] of Object.entries(damage)) {
      await checkpointOf(store, makeSession(id))
      const { path } = await store.saveSession(makeSession(id))
      spoil(path)
    }
    await store.saveSession(makeSession('whole'))
    const infos = await store.sessionsInfo()
    assert.deepEqual(
      infos.map(({ id }) => id),
      [...Object.keys(damage), 'whole'].toSorted(),
    )
    for (const info of infos.filter(({ id }) => id !== 'whole')) {
      assert.deepEqual(Object.keys(info), [
        'id',
        'damaged',
        'checkpointCount',
        'pinnedCount',
        'agentCheckpointCount',
        'newestCheckpoint',
        'sizeBytes',
      ])
      assert.ok(info.damaged.includes(join(base, info.id, 'session.json')), info.damaged)
      assert.match(info.damaged, /is damaged: /)
      assert.equal(info.checkpointCount, 1)
    }
    assert.equal('damaged' in infos.find(({ id }) => id === 'whole'), false)
  })

  it('is there for a session that may not be looked into, and for all others', { skip: NO_MODES }, async () => {
    const base = scratchDirectory()
    chmodSync(base, 0o777)
    const program = `
      import { chmodSync } from 'node:fs'
      // Root may look into everything.
      if (process.getuid() === 0) process.setuid(65534)
      const base = ${JSON.stringify(join(base, 'store'))}
      const store = new CheckpointStore(base)
      await store.initialize()
      for (const id of ['a', 'closed', 'z']) {
        await store.createCheckpoint({ id, taskTree: {}, checkpointIds: [] }, { trigger: 'auto' })
      }
      chmodSync(base + '/closed', 0o000)
      console.log(JSON.stringify(await store.sessionsInfo()))
      chmodSync(base + '/closed', 0o700)
    `
    const { stdout, stderr } = await runNode(program)
    const lines = JSON.parse(stdout || `"${stderr}"`).map(({ id, damaged }) => [id, damaged?.includes('EACCES')])
    assert.deepEqual(lines, [
      ['a', undefined],
      ['closed', true],
      ['z', undefined],
    ])
  })

  it('takes a document beyond the limit for a damaged one', async () => {
    const store = await openStore(scratchDirectory(), { maxReadBytes: 6000 })
    await store.saveSession(makeSession('large', { metadata: { text: 'x'.repeat(9000) } }))
    await store.saveSession(makeSession('small'))
    const [large, small] = await store.sessionsInfo()
    assert.match(large.damaged, /the limit is 6000/)
    assert.equal(small.name, 'A session')
  })

  it('is not disturbed by what else lies in the base directory or in a session', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    await checkpointOf(store, makeSession('s'))
    const before = await store.sessionsInfo()
    const outside = scratchDirectory()
    writeFileSync(join(outside, 'session.json'), '{}')
    writeFileSync(join(base, 'notes.txt'), 'hello')
    writeFileSync(join(base, 'session.json'), '{"id": "base"}')
    for (const name of ['.git', 'empty', 'with a file', 'trailing.', 'checkpoints']) mkdirSync(join(base, name))
    writeFileSync(join(base, '.git', 'session.json'), '{}')
    writeFileSync(join(base, 'with a file', 'readme.md'), '#')
    writeFileSync(join(base, 'checkpoints', 'cp-1-000001.json'), '{}')
    if (process.platform !== 'win32') symlinkSync(outside, join(base, 'elsewhere'))
    assert.deepEqual(await store.sessionsInfo(), before)

    writeFileSync(join(base, 's', 'checkpoints', 'notes.txt'), '12345')
    mkdirSync(join(base, 's', 'logs'))
    writeFileSync(join(base, 's', 'logs', 'today.log'), '1234567')
    writeFileSync(join(base, 's', 'agents'), '123')
    const [info] = await store.sessionsInfo()
    assert.deepEqual(info, { ...before[0], sizeBytes: before[0].sizeBytes + 15 })
  })

  it('shows what another process stored in the meantime', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('kept', { name: 'before' }))
    await store.saveSession(makeSession('gone'))
    assert.equal((await store.sessionsInfo()).length, 2)
    const { code, stderr } = await runNode(
      `const store = new CheckpointStore(process.argv[1])
      await store.initialize()
      const session = JSON.parse(process.argv[2])
      await store.saveSession(session)
      const { checkpointId } = await store.createCheckpoint(session, { trigger: 'auto' })
      await store.pinCheckpoint(session.id, checkpointId)
      await store.agent(session.id, 'a').save({ iteration: 1 })
      await store.deleteSession('gone')`,
      { args: [base, JSON.stringify(makeSession('kept', { name: 'after', status: 'completed' }))] },
    )
    assert.equal(code, 0, stderr)
    const infos = await store.sessionsInfo()
    assert.equal(infos.length, 1)
    const { id, name, status, checkpointCount, pinnedCount, agentCheckpointCount, newestCheckpoint } = infos[0]
    assert.deepEqual([id, name, status], ['kept', 'after', 'completed'])
    assert.deepEqual([checkpointCount, pinnedCount, agentCheckpointCount], [1, 1, 1])
    assert.equal(newestCheckpoint.id, (await store.getLatestCheckpoint('kept')).id)
  })
})

onEveryBackend('the checkpoints of all sessions', (open) => {
  it('come newest first, each as in the list of its session, with the id of that', async () => {
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

  it('are none in a store that has none', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    for (const options of [undefined, {}, { limit: 5 }, { trigger: 'auto' }]) {
      assert.deepEqual(await store.listAllCheckpoints(options), { checkpoints: [], total: 0, damaged: [] })
    }
  })

  it('can be narrowed by trigger, label and time, and total counts all', async () => {
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

  it('lie between two times as their own timestamps say', async () => {
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

  it('come in pages of any size, and no further page follows the last', async () => {
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

  it('come in pages that a filter has thinned out, however many it passes over', async () => {
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

  it('come in pages that neither repeat nor skip one while checkpoints come and go', async () => {
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
        // The one that the cursor stands on, one that was shown before it, and one of those to come.
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

  it('come in pages that stay right when the whole session of the last one is deleted', async () => {
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

  it('are refused to options that make no sense, and nothing changes', async () => {
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
      // That of one session's list says too little.
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

describe('the checkpoints of all sessions, from files', () => {
  it('are found by a label that was given later, and not by one that was taken away', async () => {
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

  it('that are damaged are named with their paths, hide no other, and count', async () => {
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

  it('that two sessions share, as after copying a directory, are shown for both, in pages of one too', async () => {
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

onEveryBackend('deleting the checkpoints of a session', (open) => {
  it('takes all of them, pinned and compressed ones too, and leaves everything else', async () => {
    const store = await open()
    const session = makeSession('s')
    await store.saveSession(session)
    await store.saveTaskTree('s', session.taskTree)
    await store.saveTaskResult('s', 'task-0', 42)
    for (const compress of [false, true, false, true]) {
      const { checkpointId } = await checkpointOf(store, session, { ...OPTIONS, compress, label: 'l' })
      await store.pinCheckpoint('s', checkpointId)
    }
    await checkpointOf(store, session)
    const agent = store.agent('s', 'writer')
    await agent.save({ iteration: 1 })
    await checkpointOf(store, makeSession('other'))
    assert.equal(await store.deleteSessionCheckpoints('s'), 5)
    assert.deepEqual(await store.listCheckpointInfo('s'), { checkpoints: [], total: 0, damaged: [] })
    assert.equal(await store.getLatestCheckpoint('s'), null)
    assert.deepEqual(await store.loadSession('s'), throughJson({ ...session, taskTree: undefined }))
    assert.deepEqual(await store.loadTaskTree('s'), session.taskTree)
    assert.equal(await store.loadTaskResult('s', 'task-0'), 42)
    assert.equal((await agent.list()).total, 1)
    assert.equal((await store.listAllCheckpoints()).checkpoints[0].sessionId, 'other')
    const [, info] = await store.sessionsInfo()
    assert.deepEqual([info.checkpointCount, info.pinnedCount, info.agentCheckpointCount], [0, 0, 1])
    assert.equal('newestCheckpoint' in info, false)
    assert.equal(await store.deleteSessionCheckpoints('s'), 0)
  })

  it('makes room for new ones, under the same limit', async () => {
    const store = await open(2)
    for (let round = 0; round < 3; round += 1) {
      for (let number = 0; number < 3; number += 1) await checkpointOf(store, makeSession('s'))
      assert.equal((await store.listCheckpointInfo('s')).total, 2)
      assert.equal(await store.deleteSessionCheckpoints('s'), 2)
    }
  })

  it('is nothing for a session that has none, or is not there', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    assert.equal(await store.deleteSessionCheckpoints('s'), 0)
    assert.equal(await store.deleteSessionCheckpoints('nobody'), 0)
    assert.deepEqual(await store.listSessions(), ['s'])
  })

  it('is refused for what is no id', async () => {
    const store = await open()
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    for (const id of [undefined, null, 5, {}, ['s'], Symbol('s')]) {
      await assert.rejects(store.deleteSessionCheckpoints(id), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^sessionId must be a string; got /,
      })
    }
    for (const id of ['', '.', '..', '../s', 's/', 'CON', 'x'.repeat(201)]) {
      await assert.rejects(store.deleteSessionCheckpoints(id), { code: 'WAYMARK_INVALID_ID' })
    }
    assert.deepEqual(ids(await store.listCheckpointInfo('s')), [checkpointId])
  })
})

describe('deleting the checkpoints of a session, in files', () => {
  it('leaves no link to the newest, no pins, and what people put there', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId } = await checkpointOf(store, makeSession('s'))
    await store.pinCheckpoint('s', checkpointId)
    const bad = await checkpointOf(store, makeSession('s'))
    truncateSync(bad.path, 10)
    writeFileSync(join(base, 's', 'checkpoints', 'notes.txt'), 'mine')
    assert.equal(await store.deleteSessionCheckpoints('s'), 2)
    assert.equal(existsSync(join(base, 's', 'latest')), false)
    assert.equal(existsSync(join(base, 's', 'checkpoints', `${checkpointId}.pin`)), false)
    assert.equal(existsSync(join(base, 's', 'checkpoints', 'notes.txt')), true)
  })

  it('counts each once when two stores do it at the same time', async () => {
    const base = scratchDirectory()
    const stores = [await openStore(base, QUICK), await openStore(base, QUICK)]
    for (let number = 0; number < 20; number += 1) await checkpointOf(stores[0], makeSession('s'))
    const gone = await Promise.all(stores.map((store) => store.deleteSessionCheckpoints('s')))
    assert.equal(gone[0] + gone[1], 20)
    assert.equal((await stores[0].listCheckpointInfo('s')).total, 0)
  })
})
