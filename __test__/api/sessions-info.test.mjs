import assert from 'node:assert/strict'
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const NO_MODES = process.platform === 'win32' && 'Windows has no modes'

const QUICK = { durability: 'relaxed' }

const NO_CHECKPOINTS = { checkpointCount: 0, pinnedCount: 0, agentCheckpointCount: 0 }

const sizeOf = async (store, id) => (await store.getSessionStorageStats(id)).totalSizeBytes

onEveryBackend('sessionsInfo', (open) => {
  it('returns everything known without reading a checkpoint', async () => {
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

  it('names the origin of a fork', async () => {
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

  it('lists sessions with only a document, only checkpoints or only agents', async () => {
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

  it('sessionInfo returns a single session', async () => {
    const store = await open()
    for (const id of ['a', 'b', 'c']) await store.saveSession(makeSession(id))
    await checkpointOf(store, makeSession('only-checkpoints'))
    await store.createSessionDirectory('empty')
    const lease = await store.acquireSession('b', { owner: 'worker', ttlMs: 3_600_000 })
    for (const info of await store.sessionsInfo()) {
      const own = await store.sessionInfo(info.id)
      // The remaining time of the lease is added to a running clock.
      if (own.lease) own.lease.expiresAt = info.lease.expiresAt
      assert.deepEqual(own, info)
    }
    assert.equal((await store.sessionInfo('b')).lease.owner, 'worker')
    assert.deepEqual([await store.sessionInfo('empty'), await store.sessionInfo('unknown')], [null, null])
    await assert.rejects(store.sessionInfo('../a'), { code: 'WAYMARK_INVALID_ID' })
    await lease.release()
  })

  it('returns nothing for an empty store and for deleted sessions', async () => {
    const store = await open()
    assert.deepEqual(await store.sessionsInfo(), [])
    await store.saveSession(makeSession('s'))
    await checkpointOf(store, makeSession('s'))
    await store.deleteSession('s')
    assert.deepEqual(await store.sessionsInfo(), [])
  })

  it('keeps names and numbers unchanged, however unusual', async () => {
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

  it('counts tasks by those metrics that are numbers only', async () => {
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

  it('omits members that the document does not have', async () => {
    const store = await open()
    await store.saveSession({ id: 's', taskTree: {}, checkpointIds: [] })
    const sizeBytes = await sizeOf(store, 's')
    assert.deepEqual(await store.sessionsInfo(), [{ id: 's', ...NO_CHECKPOINTS, sizeBytes }])
  })

  it('returns the size that getSessionStorageStats returns', async () => {
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

  it('sorts 300 sessions by id', async () => {
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

describe('sessionsInfo (files)', () => {
  it('reports a damaged document and hides nothing else', async () => {
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

  it('lists a session that may not be read, and all others', { skip: NO_MODES }, async () => {
    const base = scratchDirectory()
    chmodSync(base, 0o777)
    const program = `
      import { chmodSync } from 'node:fs'
      // Root can read every directory.
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

  it('reports a document beyond maxReadBytes as damaged', async () => {
    const store = await openStore(scratchDirectory(), { maxReadBytes: 6000 })
    await store.saveSession(makeSession('large', { metadata: { text: 'x'.repeat(9000) } }))
    await store.saveSession(makeSession('small'))
    const [large, small] = await store.sessionsInfo()
    assert.match(large.damaged, /the limit is 6000/)
    assert.equal(small.name, 'A session')
  })

  it('ignores foreign files in the base directory and in a session', async () => {
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

  it('includes what another process stored in the meantime', async () => {
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

describe('sessionsInfo with unusual files', () => {
  // A directory nested too deeply to be measured must not fail the call.
  it('does not fail for a directory that is nested too deeply', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('s'))
    mkdirSync(join(base, 'stray', ...Array.from({ length: 70 }, () => 'd')), { recursive: true })
    const infos = await store.sessionsInfo()
    assert.equal(infos.find(({ id }) => id === 's').name, 'A session')
  })

  // After a clock was set back, the time in an id is ahead of the timestamp.
  it('returns the time of the newest checkpoint as other lists do', async () => {
    const base = scratchDirectory()
    const before = await openStore(base)
    const { path, checkpointId } = await checkpointOf(before, makeSession('s'))
    const future = `cp-${(Date.now() + 86_400_000).toString(36)}-000001`
    const { taskCount: _, agentCount: __, integrity: ___, ...checkpoint } = JSON.parse(readFileSync(path, 'utf8'))
    writeFileSync(path, JSON.stringify({ ...checkpoint, id: future }))
    renameSync(path, path.replace(checkpointId, future))
    const store = await openStore(base)
    await checkpointOf(store, makeSession('s'), OPTIONS)
    const [{ newestCheckpoint }] = await store.sessionsInfo()
    const [{ id, timestamp }] = (await store.listCheckpointInfo('s')).checkpoints
    assert.deepEqual(newestCheckpoint, { id, timestamp })
  })
})
