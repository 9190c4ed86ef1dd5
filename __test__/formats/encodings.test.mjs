import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import zlib from 'node:zlib'

import { makeState, saved, stateIn } from '../support/agents.mjs'
import { autoOf } from '../support/auto-checkpoint.mjs'
import { emptyStore } from '../support/invalid-values.mjs'
import { integrityOf, originalChecksum } from '../support/original-format.mjs'
import { makeAgent, makeSession, makeTask, throughJson, withoutTree } from '../support/sessions.mjs'
import {
  CheckpointStore,
  OPTIONS,
  checkpointOf,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

const ENDINGS = { json: '.json', gzip: '.json.gz', zstd: '.json.zst', delta: '.delta.zst' }
const ENCODINGS = Object.keys(ENDINGS)

const lacksZstd = spawnSync('zstd', ['--version']).error && 'there is no zstd(1) here'

const AGENTS = { x: makeAgent('x') }
const CONTEXT = { plan: ['é', '検査点', '🟦', '\0', '\ud800'], deep: [[1e21, null, { '': {} }]] }

const sessionNamed = (name, overrides = {}) =>
  makeSession('s', { name, taskTree: { a: makeTask('a', { status: 'in_progress' }), b: makeTask('b') }, ...overrides })

/** Two checkpoints in an encoding: the second is not always stored like the first. */
async function twoOf(store, encoding) {
  const made = []
  for (const name of ['one', 'two']) {
    const options = { ...OPTIONS, encoding, label: name, description: `"${name}"`, metadata: { name } }
    made.push(await checkpointOf(store, sessionNamed(name), options, AGENTS, CONTEXT))
  }
  return made
}

const idsOf = (values) => values.map(({ id, checkpointId }) => id ?? checkpointId)

for (const encoding of ENCODINGS) {
  onEveryBackend(`a checkpoint stored as ${encoding}`, (open) => {
    it('is returned by every method that reads it', async () => {
      const store = await open()
      const made = await twoOf(store, encoding)
      const [one, two] = idsOf(made)
      for (const { path } of made) assert.ok(path.endsWith(ENDINGS[encoding]), path)
      const checkpoint = await store.getCheckpoint('s', two)
      assert.deepEqual(checkpoint.session, {
        ...withoutTree(sessionNamed('two')),
        lastCheckpointId: two,
        checkpointIds: [two],
      })
      assert.deepEqual(checkpoint.taskTree, sessionNamed('two').taskTree)
      assert.deepEqual(checkpoint.agentStates, AGENTS)
      assert.deepEqual(checkpoint.contextStore, throughJson(CONTEXT))
      assert.deepEqual([checkpoint.label, checkpoint.description, checkpoint.metadata.name], ['two', '"two"', 'two'])
      assert.equal(checkpoint.sizeBytes, made[1].sizeBytes)
      assert.deepEqual(await store.getLatestCheckpoint('s'), checkpoint)
      assert.deepEqual(await store.getCheckpointByLabel('s', 'two'), checkpoint)
      assert.deepEqual(idsOf((await store.listCheckpoints('s')).checkpoints), [two, one])
      const walked = []
      for await (const { id } of store.checkpoints('s', { label: 'one' })) walked.push(id)
      assert.deepEqual(walked, [one])
      const { checkpoints: infos } = await store.listCheckpointInfo('s')
      assert.deepEqual(
        infos.map((info) => [info.id, info.encoding, info.label, info.taskCount, info.agentCount, info.sizeBytes]),
        [
          [two, encoding, 'two', 2, 1, made[1].sizeBytes],
          [one, encoding, 'one', 2, 1, made[0].sizeBytes],
        ],
      )
      const all = await store.listAllCheckpoints()
      assert.deepEqual(idsOf(all.checkpoints), [two, one])
      const { checkpoints: nodes, damaged } = await store.history('s')
      assert.deepEqual([idsOf(nodes), damaged], [[two, one], []])
      assert.equal((await store.verifyCheckpoint('s', one)).whole, true)
      assert.deepEqual((await store.verifySession('s')).whole, true)
      const { identical, session, context } = await store.diffCheckpoints(`s/${one}`, `s/${two}`)
      assert.deepEqual([identical, session, context.changed], [false, ['name'], []])
    })

    it('has the same checksums in every encoding', async () => {
      const store = await open()
      await twoOf(store, encoding)
      for (const checkpoint of (await store.listCheckpoints('s')).checkpoints) {
        assert.equal(checkpoint.checksum, originalChecksum(checkpoint))
        assert.equal(checkpoint.integrity, integrityOf({ ...checkpoint, sizeBytes: 0 }))
      }
    })

    it('is restored, recovered and forked from', async () => {
      const store = await open({ encoding })
      const [one, two] = idsOf(await twoOf(store, encoding))
      const options = { sessionId: 's', validateChecksum: true, resetInProgressTasks: true }
      const restored = await store.restoreCheckpoint({ checkpointId: one, ...options })
      assert.deepEqual([restored.success, restored.restoredTasks], [true, 2])
      assert.equal((await store.loadSession('s')).name, 'one')
      const recovered = await store.recoverSession('s', { includeState: true, quarantine: true })
      assert.deepEqual([recovered.checkpointId, recovered.passedOver], [two, []])
      assert.deepEqual(recovered.state.contextStore, throughJson(CONTEXT))
      const forked = await store.forkSession({ sessionId: 's', checkpointId: one, newSessionId: 'fork' })
      assert.equal(forked.success, true, forked.error)
      assert.equal((await store.getLatestCheckpoint('fork')).session.name, 'one')
      const { sizeBytes } = await checkpointOf(store, makeSession('fork'), { trigger: 'auto' })
      assert.equal((await store.getLatestCheckpoint('fork')).sizeBytes, sizeBytes)
      assert.equal((await store.verifySession('fork')).whole, true)
      assert.equal((await store.recoverable()).length, 2)
    })

    it('is labelled, pinned, removed by retention, copied, deleted and expired', async () => {
      const store = await open({ maxCheckpointsPerSession: 2 })
      const [one, two] = idsOf(await twoOf(store, encoding))
      await store.pinCheckpoint('s', one)
      await store.labelCheckpoint('s', two, 'later')
      for (let round = 0; round < 3; round += 1) await twoOf(store, encoding)
      assert.deepEqual(idsOf((await store.listCheckpoints('s')).checkpoints).at(-1), one)
      assert.equal((await store.listCheckpoints('s')).total, 3)
      assert.equal((await store.getCheckpointByLabel('s', 'one')).session.name, 'one')
      const copy = await open()
      assert.equal((await store.copyTo(copy)).checkpoints, 3)
      const withoutSizes = ({ checkpoints }) => checkpoints.map(({ sizeBytes: _, ...rest }) => rest)
      assert.deepEqual(withoutSizes(await copy.listCheckpoints('s')), withoutSizes(await store.listCheckpoints('s')))
      assert.equal((await store.copyTo(copy)).checkpoints, 0)
      assert.equal((await copy.listCheckpointInfo('s')).checkpoints.at(-1).pinned, true)

      assert.equal((await store.deleteCheckpoint('s', one)).success, true)
      assert.equal(await store.getCheckpoint('s', one), null)
      assert.equal(await store.deleteSessionCheckpoints('s'), 2)
      assert.deepEqual(await store.listCheckpoints('s'), { checkpoints: [], total: 0, damaged: [] })
      await copy.saveSession(makeSession('s', { status: 'completed', expiresAt: 1 }))
      assert.equal((await copy.expireSessions(2, { action: 'delete' })).length, 1)
      assert.equal((await copy.getSessionStorageStats('s')).totalSizeBytes, 0)
    })

    it('may hold an agent state', async () => {
      const store = await open({ encoding, maxCheckpointsPerAgent: 3 })
      const agent = store.agent('s', 'a')
      for (let iteration = 1; iteration < 6; iteration += 1) {
        const options = iteration % 2 ? undefined : { encoding }
        const { path } = await saved(agent, makeState({ iteration, context: new Uint8Array([iteration]) }), options)
        assert.ok(path.endsWith(ENDINGS[encoding]), path)
      }
      const latest = await agent.latest()
      const { context: _, ...state } = stateIn(latest)
      assert.deepEqual(state, throughJson(makeState({ iteration: 5 })))
      assert.deepEqual([latest.iteration, latest.context], [5, new Uint8Array([5])])
      const { checkpoints } = await agent.info()
      assert.deepEqual(
        checkpoints.map((info) => [info.iteration, info.encoding]),
        [
          [5, encoding],
          [4, encoding],
          [3, encoding],
        ],
      )
      assert.equal((await agent.verify(latest.id)).whole, true)
      assert.equal((await agent.list()).checkpoints.length, 3)
      assert.equal((await store.verifySession('s')).agentCheckpoints.length, 3)
      assert.equal((await agent.delete(latest.id)).success, true)
      assert.equal((await agent.latest()).iteration, 4)
    })

    it('may be the default of the store and of autoCheckpoint', async () => {
      const store = await open({ encoding })
      await checkpointOf(store, makeSession('s'), { trigger: 'manual' })
      await checkpointOf(store, makeSession('s'), OPTIONS)
      await checkpointOf(store, makeSession('s'), { trigger: 'manual', encoding: undefined })
      for (const other of ENCODINGS) await checkpointOf(store, makeSession('s'), { trigger: 'manual', encoding: other })
      await checkpointOf(store, makeSession('s'), { trigger: 'manual', compress: true })
      const { auto } = autoOf(store, { options: { encoding } })
      await auto.now()
      await auto.now({ encoding: 'gzip' })
      await auto.stop()
      const { checkpoints } = await store.listCheckpointInfo('s')
      assert.deepEqual(
        checkpoints.toReversed().map((info) => info.encoding),
        [encoding, encoding, encoding, ...ENCODINGS, 'gzip', encoding, 'gzip', encoding],
      )
      assert.equal((await store.verifySession('s')).whole, true)
    })
  })
}

describe('checkpoint files', () => {
  it('of all encodings are in one order, and the link names the newest', async () => {
    const base = scratchDirectory()
    const store = await openStore(base, { maxCheckpointsPerSession: 6 })
    const ids = []
    for (let round = 0; round < 3; round += 1) {
      for (const encoding of ENCODINGS) {
        const { checkpointId, path } = await checkpointOf(store, sessionNamed(encoding), { ...OPTIONS, encoding })
        ids.unshift(checkpointId)
        if (process.platform !== 'win32') {
          assert.equal(basename(readlinkSync(join(base, 's', 'latest'))), basename(path))
        }
      }
    }
    const { checkpoints, damaged } = await (await openStore(base)).listCheckpoints('s')
    assert.deepEqual([idsOf(checkpoints), damaged], [ids.slice(0, 6), []])
    const { checkpoints: page, cursor } = await store.listCheckpointInfo('s', { limit: 3 })
    const { checkpoints: rest } = await store.listCheckpointInfo('s', { limit: 3, cursor })
    assert.deepEqual(idsOf([...page, ...rest]), ids.slice(0, 6))
  })

  it(
    'as zstd can be read by Node.js after their header',
    { skip: !zlib.zstdDecompressSync && 'this Node.js knows no zstd' },
    async () => {
      const store = await openStore()
      const { checkpointId, path } = await checkpointOf(store, sessionNamed('é'), { ...OPTIONS, encoding: 'zstd' })
      // Skip the skippable frame before the document.
      const bytes = readFileSync(path)
      const text = bytes.subarray(8 + bytes.readUInt32LE(4))
      const checkpoint = JSON.parse(zlib.zstdDecompressSync(text).toString())
      assert.deepEqual([checkpoint.id, checkpoint.session.name], [checkpointId, 'é'])
    },
  )

  it('as zstd, and the bases of deltas, can be read by zstd(1)', { skip: lacksZstd }, async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const unpacked = (...args) => execFileSync('zstd', ['-dc', ...args])
    const nameIn = (...args) => JSON.parse(unpacked(...args).toString()).session.name
    const { path } = await checkpointOf(store, sessionNamed('é'), { ...OPTIONS, encoding: 'zstd' })
    assert.equal(nameIn(path), 'é')
    // The base holds the first text as a whole.
    await twoOf(store, 'delta')
    const folder = join(base, 's', 'checkpoints')
    const key = readdirSync(folder).find((name) => name.endsWith('.key.zst'))
    assert.equal(nameIn(join(folder, key)), 'one')
  })
})

const WRONG = ['', 'GZIP', 'brotli', 'delta ', 5, true, null, {}, ['zstd'], Symbol('zstd'), () => 'zstd']

describe('an unknown encoding', () => {
  const refusal = (error) => {
    assert.equal(error.code, 'WAYMARK_INVALID_ARGUMENT')
    assert.match(error.message, /^options\.encoding must be one of "json", "gzip", "zstd" and "delta"; got /)
    return true
  }

  for (const encoding of WRONG) {
    it(`is rejected everywhere: ${String(encoding)} of type ${typeof encoding}`, async () => {
      assert.throws(() => new CheckpointStore('memory:', { encoding }), refusal)
      const { store, isUntouched } = await emptyStore()
      const result = await store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, encoding })
      refusal({ code: result.code, message: result.error })
      const saving = await store.agent('s', 'a').save(makeState(), { encoding })
      refusal({ code: saving.code, message: saving.error })
      const { auto, seen } = autoOf(store, { options: { encoding } })
      assert.equal(await auto.now(), undefined)
      refusal(seen.errors[0])
      isUntouched()
    })
  }

  it('is rejected beside a compress that contradicts it', async () => {
    const { store, isUntouched } = await emptyStore()
    for (const encoding of ['json', 'zstd', 'delta']) {
      const result = await store.createCheckpoint(makeSession('s'), {}, {}, { ...OPTIONS, compress: true, encoding })
      assert.equal(result.code, 'WAYMARK_INVALID_ARGUMENT')
      assert.equal(
        result.error,
        `options.compress means "gzip", and options.encoding says "${encoding}": leave one of them out`,
      )
      assert.equal(
        (await store.agent('s', 'a').save({}, { compress: true, encoding })).code,
        'WAYMARK_INVALID_ARGUMENT',
      )
    }
    isUntouched()
    const { path } = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true, encoding: 'gzip' })
    assert.ok(path.endsWith('.json.gz'))
    const plain = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: false, encoding: 'zstd' })
    assert.ok(plain.path.endsWith('.json.zst'))
  })

  it('deltaCacheBytes must be a whole number of bytes', () => {
    for (const deltaCacheBytes of [-1, 0.5, NaN, '64', null, {}, true, 10n]) {
      assert.throws(() => new CheckpointStore('memory:', { deltaCacheBytes }), {
        code: 'WAYMARK_INVALID_ARGUMENT',
        message: /^options\.deltaCacheBytes must be /,
      })
    }
    for (const deltaCacheBytes of [0, 1, 2 ** 40, Infinity, undefined]) {
      assert.ok(new CheckpointStore('memory:', { deltaCacheBytes }))
    }
  })
})
