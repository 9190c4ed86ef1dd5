import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'

import { writeFromProcesses } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const lacksFlock = spawnSync('flock', ['--version']).error && 'there is no flock(1) here'

onEveryBackend('concurrent calls', (open) => {
  it('a hundred saves of one session all succeed and leave one whole document', async () => {
    const store = await open()
    const filler = 'x'.repeat(20_000)
    const sessions = Array.from({ length: 100 }, (_, index) =>
      makeSession('s', { name: `${index}`, metadata: { filler } }),
    )
    const results = await Promise.all(sessions.map((session) => store.saveSession(session)))
    assert.deepEqual(
      results.filter((result) => !result.success),
      [],
    )
    const loaded = await store.loadSession('s')
    assert.ok(Number(loaded.name) >= 0 && Number(loaded.name) < 100)
    assert.equal(loaded.metadata.filler, filler)
  })

  it('readers see whole states while writers replace them', async () => {
    const store = await open()
    await store.saveTaskTree('s', { n: '0'.repeat(50_000) })
    const writes = Array.from({ length: 50 }, (_, index) =>
      store.saveTaskTree('s', { n: String(index % 10).repeat(50_000) }),
    )
    const reads = Array.from({ length: 50 }, () => store.loadTaskTree('s'))
    for (const { n } of await Promise.all(reads)) assert.match(n, /^(\d)\1{49999}$/)
    await Promise.all(writes)
  })

  it('concurrent restores never mix the session of one with the tree of another', async () => {
    const store = await open()
    const made = []
    for (const name of ['one', 'two']) {
      const taskTree = { [name]: { id: name, status: 'pending' } }
      made.push((await checkpointOf(store, makeSession('s', { name, taskTree }))).checkpointId)
    }
    for (let round = 0; round < 10; round += 1) {
      await Promise.all([...made, ...made].map((checkpointId) => store.restoreCheckpoint({ checkpointId })))
      const [session, tree] = [await store.loadSession('s'), await store.loadTaskTree('s')]
      assert.deepEqual(Object.keys(tree), [session.name])
    }
  })

  it('retention holds and keeps the newest', async () => {
    const store = await open(5)
    const results = await Promise.all(
      Array.from({ length: 60 }, () => store.createCheckpoint(makeSession('s'), {}, {}, OPTIONS)),
    )
    assert.ok(results.every((result) => result.success && result.warnings === undefined))
    const { checkpoints, total } = await store.listCheckpoints('s')
    assert.equal(total, 5)
    assert.equal(checkpoints[0].id, results.at(-1).checkpointId)
  })
})

describe('threads and processes', () => {
  it('worker threads share a directory', async () => {
    const base = scratchDirectory()
    const source = `
      const { workerData, parentPort } = require('node:worker_threads')
      const { CheckpointStore } = require(workerData.addon)
      const store = new CheckpointStore(workerData.base)
      store.initialize()
        .then(() => Promise.all(workerData.sessions.map((session) => store.createCheckpoint(session, { trigger: 'auto' }))))
        .then((results) => parentPort.postMessage(results))
    `
    const addon = new URL('../../index.js', import.meta.url).pathname
    const answers = await Promise.all(
      Array.from({ length: 3 }, (_, worker) => {
        const sessions = Array.from({ length: 10 }, () => makeSession(`s${worker % 2}`))
        return new Promise((resolve, reject) => {
          const thread = new Worker(source, { eval: true, workerData: { addon, base, sessions } })
          thread.once('message', resolve).once('error', reject)
        })
      }),
    )
    assert.ok(answers.flat().every((result) => result.success))
    const store = await openStore(base)
    assert.equal((await store.listCheckpoints('s0')).total, 20)
    assert.equal((await store.listCheckpoints('s1')).total, 10)
  })

  it('a worker thread may be terminated during its writes', async () => {
    const base = scratchDirectory()
    const source = `
      const { workerData } = require('node:worker_threads')
      const { CheckpointStore } = require(workerData.addon)
      const store = new CheckpointStore(workerData.base)
      store.initialize().then(() => {
        const write = (n) => store.saveTaskResult('s', 't' + n % 5, { n, big: 'x'.repeat(50000) }).then(() => write(n + 1))
        for (let n = 0; n < 5; n += 1) write(n)
      })
    `
    const addon = new URL('../../index.js', import.meta.url).pathname
    const thread = new Worker(source, { eval: true, workerData: { addon, base } })
    await new Promise((resolve) => setTimeout(resolve, 300))
    await thread.terminate()
    const store = await openStore(base)
    for (let n = 0; n < 5; n += 1) {
      const result = await store.loadTaskResult('s', `t${n}`)
      assert.ok(result === null || result.big.length === 50_000)
    }
  })

  it('several processes write one session within the limit', async () => {
    const base = scratchDirectory()
    await writeFromProcesses(base)
    const store = await openStore(base)
    const { total, damaged } = await store.listCheckpoints('s')
    assert.deepEqual([total, damaged], [10, []])
    assert.equal((await store.getSessionStorageStats('s')).resultCount, 15)
    assert.equal((await store.verifySession('s')).whole, true)
    assert.ok(await store.loadSession('s'))
    assert.deepEqual(
      readdirSync(join(base, 's')).filter((name) => name.endsWith('.tmp')),
      [],
    )
  })

  it('a session locked by a stopped process does not block others', { skip: lacksFlock }, async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    await store.saveSession(makeSession('locked'))
    const holder = spawn('flock', [join(base, 'locked', '.lock'), 'sh', '-c', 'echo held; sleep 60'], {
      detached: true,
    })
    const ended = new Promise((resolve) => holder.once('exit', resolve))
    try {
      await new Promise((resolve) => holder.stdout.once('data', resolve))
      let locked = 0
      const waiting = Array.from({ length: 30 }, () =>
        store.saveSession(makeSession('locked')).finally(() => {
          locked += 1
        }),
      )
      assert.equal((await store.saveSession(makeSession('free'))).success, true)
      assert.equal(locked, 0)
      process.kill(-holder.pid)
      assert.ok((await Promise.all(waiting)).every(({ success }) => success))
    } finally {
      if (holder.exitCode === null && holder.signalCode === null) process.kill(-holder.pid)
      await ended
    }
  })
})
