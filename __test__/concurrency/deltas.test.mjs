import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import {
  DELTA,
  assertWhole,
  basesIn,
  createInSequence,
  deltasIn,
  folderOf,
  growingSession,
} from '../support/deltas.mjs'
import { killNode, runNode } from '../support/processes.mjs'
import { backends, checkpointOf, durableBackends, openStore, scratchDirectory } from '../support/stores.mjs'

const lacksSignals = process.platform === 'win32' && 'Windows has no such signals'
const lacksFlock = spawnSync('flock', ['--version']).error && 'there is no flock(1) here'

const support = JSON.stringify(new URL('../support/deltas.mjs', import.meta.url).href)

/** A module with a store on a location, and growing sessions. */
const withStore = (location, options, source) => `
  import { DELTA, growingSession, noise } from ${support}
  const store = new CheckpointStore(${JSON.stringify(location)}, ${JSON.stringify(options)})
  await store.initialize()
  const make = async (number, session = growingSession(number)) => {
    const result = await store.createCheckpoint(session, {}, {}, DELTA)
    if (!result.success || result.warnings) throw new Error(JSON.stringify(result))
    return result.checkpointId
  }
  ${source}
`

/** Everything is whole; every delta has its base, and every base a delta. */
async function assertTidy(location, folder) {
  const store = await openStore(location)
  const listed = await assertWhole(store)
  await store.deleteSessionCheckpoints('s')
  assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, 0)
  if (folder) assert.deepEqual([...basesIn(folder), ...deltasIn(folder)], [])
  return listed
}

describe('deltas of one session by several processes', () => {
  for (const kind of durableBackends) {
    it(`are whole after concurrent writes, prunes and deletions (${kind})`, { timeout: 120_000 }, async () => {
      const location = backends[kind]()
      const writer = (first) =>
        withStore(
          location,
          { durability: 'relaxed', maxCheckpointsPerSession: 6 },
          `
          const end = Date.now() + 3000
          for (let number = ${first}; Date.now() < end; number += 1) {
            // Sometimes a state with nothing in common with the others.
            const session = number % 7 ? growingSession(number) : { ...growingSession(number), description: noise(9000, number) }
            const made = [make(number, session), make(number + 0.5)]
            if (number % 5 === 0) made.push(store.deleteCheckpoint('s', await made[0]))
            if (number % 11 === 0) made.push(store.deleteSessionCheckpoints('s'))
            await Promise.all(made)
            const { damaged } = await store.listCheckpoints('s')
            if (damaged.length > 0) throw new Error(JSON.stringify(damaged))
          }
        `,
        )
      const runs = await Promise.all([1, 1_000_000].map((first) => runNode(writer(first))))
      for (const { code, stderr } of runs) assert.deepEqual([code, stderr], [0, ''])
      await assertTidy(location, kind === 'files' && folderOf(location))
    })

    it(
      `are what was acknowledged after repeated kills (${kind})`,
      { skip: lacksSignals, timeout: 120_000 },
      async () => {
        const location = backends[kind]()
        const acknowledged = []
        for (let round = 0; round < 12; round += 1) {
          const source = withStore(
            location,
            { maxCheckpointsPerSession: 10_000 },
            `
          for (let number = ${round * 1000}; ; number += 3) {
            const made = [0, 1, 2].map((more) => number + more)
            const session = (n) => (n % 5 ? growingSession(n) : { ...growingSession(n), description: noise(9000, n) })
            for (const id of await Promise.all(made.map((n) => make(n, session(n))))) console.log(id)
          }
        `,
          )
          acknowledged.push(...(await killNode(source, { afterLines: 5 + round })))
        }
        const { checkpoints, damaged } = await (await openStore(location)).listCheckpoints('s', 100_000)
        assert.deepEqual(damaged, [])
        const there = new Set(checkpoints.map(({ id }) => id))
        assert.deepEqual(
          acknowledged.filter((id) => !there.has(id)),
          [],
        )
        // The next writer removes what a killed process left.
        const store = await openStore(location)
        await createInSequence(store, 1)
        if (kind === 'files') {
          const left = readdirSync(folderOf(location)).filter((name) => name.endsWith('.tmp'))
          assert.deepEqual(left, [])
        }
        await assertTidy(location, kind === 'files' && folderOf(location))
      },
    )
  }
})

describe('deltas while a stopped process holds the name lock', () => {
  it('are stored as whole checkpoints, and no base in use is removed', { skip: lacksFlock }, async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { durability: 'relaxed', maxCheckpointsPerSession: 4 })
    await createInSequence(store, 3)
    const lock = join(folderOf(base), '.names')
    const holder = spawn('flock', [lock, 'sh', '-c', 'echo held; sleep 60'], { detached: true })
    const ended = new Promise((resolve) => holder.once('exit', resolve))
    try {
      await new Promise((resolve) => holder.stdout.once('data', resolve))
      const began = Date.now()
      const { path } = await checkpointOf(store, growingSession(3), DELTA)
      assert.ok(path.endsWith('.json.zst'), path)
      assert.ok(Date.now() - began < 1000, 'calls do not wait for it for long')
      const other = await openStore(base, { durability: 'relaxed', timeoutMs: 300 })
      await Promise.all([4, 5].map((number) => checkpointOf(other, growingSession(number), DELTA)))
      const { checkpoints } = await other.listCheckpoints('s')
      const deleted = await other.deleteCheckpoint('s', checkpoints[0].id)
      assert.deepEqual([deleted.success, deleted.code], [false, 'WAYMARK_BUSY'])
      const deletion = Date.now()
      await assert.rejects(other.deleteSessionCheckpoints('s'), { code: 'WAYMARK_BUSY' })
      assert.ok(Date.now() - deletion < 1500, 'the limit is not for each of them')
      assert.deepEqual(await assertWhole(await openStore(base)), ['5', '4', '3', '2', '1', '0'])
    } finally {
      process.kill(-holder.pid)
      await ended
    }
    const [made] = await createInSequence(store, 1, { first: 6 })
    assert.ok(made.path.endsWith('.delta.zst'), 'when it is over, all is as before')
    await createInSequence(store, 3, { first: 7 })
    assert.deepEqual((await assertWhole(await openStore(base))).length, 4)
    await store.deleteSessionCheckpoints('s')
    assert.deepEqual(basesIn(folderOf(base)), [])
  })

  it('of the stopped process are whole when it continues', { skip: lacksSignals, timeout: 60_000 }, async () => {
    const base = scratchDirectory()
    const source = withStore(
      base,
      { durability: 'relaxed', maxCheckpointsPerSession: 5 },
      `
      process.stdin.on('data', () => process.exit())
      console.log('ready')
      for (let number = 1000; ; number += 1) await make(number, number % 9 ? growingSession(number) : { ...growingSession(number), description: noise(9000, number) })
    `,
    )
    const addon = new URL('../../index.js', import.meta.url).href
    const program = `import { CheckpointStore } from ${JSON.stringify(addon)}\n${source}`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve([code, signal])))
    try {
      await new Promise((resolve) => child.stdout.once('data', resolve))
      const options = { durability: 'relaxed', maxCheckpointsPerSession: 5, timeoutMs: 300 }
      const store = await openStore(base, options)
      // The process may have been stopped while it held the lock.
      const isBusy = ({ code }) => assert.equal(code, 'WAYMARK_BUSY')
      for (let round = 0; round < 12; round += 1) {
        await sleep(20 + round * 7)
        child.kill('SIGSTOP')
        await createInSequence(store, 4, { first: round * 10 })
        if (round % 3 === 0) await store.deleteSessionCheckpoints('s').catch(isBusy)
        const { damaged } = await (await openStore(base)).listCheckpoints('s')
        assert.deepEqual(damaged, [])
        child.kill('SIGCONT')
      }
      child.stdin.write('enough\n')
      assert.deepEqual(await ended, [0, null])
    } finally {
      child.kill('SIGKILL')
      await ended
    }
    assert.ok((await assertTidy(base, folderOf(base))).length > 0)
  })
})
