import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'

import { makeAgent, makeSession, makeTask } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

/** Kinds of damage: the change of the bytes, and the expected error code. */
const DAMAGE = {
  'cut off': [(bytes) => bytes.subarray(0, bytes.length / 2), 'WAYMARK_CORRUPT'],
  empty: [() => Buffer.alloc(0), 'WAYMARK_CORRUPT'],
  'all zeros': [(bytes) => Buffer.alloc(bytes.length), 'WAYMARK_CORRUPT'],
  'no JSON': [() => Buffer.from('hello'), 'WAYMARK_CORRUPT'],
  'JSON of another kind': [() => Buffer.from('[1, 2]'), 'WAYMARK_CORRUPT'],
  'with a comma changed': [(bytes) => replaced(bytes, /,(\s*"integrity")/, '-$1'), 'WAYMARK_CORRUPT'],
  'with one value changed': [(bytes) => replaced(bytes, 'task-1', 'task-7'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'with its session changed': [(bytes) => replaced(bytes, 'A session', 'B session'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'of a newer version': [(bytes) => replaced(bytes, '1.0.0', '2.0.0'), 'WAYMARK_NEWER_VERSION'],
  'under the name of another': [(bytes) => replaced(bytes, /cp-[0-9a-z]+-[0-9a-z]+/, 'cp-other'), 'WAYMARK_CORRUPT'],
  // Large checkpoints are parsed before their checksum is known.
  'large, and null': [() => enlarged('null'), 'WAYMARK_CORRUPT'],
  'large, and a number': [() => enlarged('12'), 'WAYMARK_CORRUPT'],
  'large, and no JSON': [() => enlarged('hello'), 'WAYMARK_CORRUPT'],
  'large, with one value changed': [
    (bytes) => enlarged(replaced(bytes, 'task-1', 'task-7')),
    'WAYMARK_CHECKSUM_MISMATCH',
  ],
}

function enlarged(text) {
  return Buffer.from(' '.repeat(300_000) + text)
}

function replaced(bytes, from, to) {
  const text = bytes.toString()
  assert.notEqual(text.replace(from, to), text)
  return Buffer.from(text.replace(from, to))
}

/** Rewrites a stored checkpoint, plain or gzipped. */
function damage(path, change) {
  const bytes = readFileSync(path)
  writeFileSync(path, path.endsWith('.gz') ? gzipSync(change(gunzipSync(bytes))) : change(bytes))
}

describe('a damaged checkpoint', () => {
  for (const compress of [false, true]) {
    for (const [kind, [change, code]] of Object.entries(DAMAGE)) {
      it(`is reported by every method that reads it: ${kind}${compress ? ', compressed' : ''}`, async () => {
        const store = await openStore()
        const good = await checkpointOf(store, makeSession('s', { name: 'good' }))
        const bad = await checkpointOf(store, makeSession('s', { name: 'A session' }), { ...OPTIONS, compress })
        damage(bad.path, change)
        await assert.rejects(store.getCheckpoint('s', bad.checkpointId), { code })
        await assert.rejects(store.getLatestCheckpoint('s'), { code })
        const { checkpoints, damaged, total } = await store.listCheckpoints('s')
        assert.deepEqual([checkpoints.map((checkpoint) => checkpoint.id), total], [[good.checkpointId], 2])
        assert.deepEqual([damaged[0].id, damaged[0].path, damaged[0].code], [bad.checkpointId, bad.path, code])
        const verdict = await store.verifyCheckpoint('s', bad.checkpointId)
        assert.deepEqual([verdict.whole, verdict.code], [false, code])
        const refused = await store.restoreCheckpoint({
          checkpointId: bad.checkpointId,
          sessionId: 's',
          validateChecksum: true,
        })
        assert.equal(refused.code, code)
        assert.equal(await store.loadSession('s'), null)

        const recovered = await store.recoverSession('s')
        assert.deepEqual([recovered.success, recovered.checkpointId], [true, good.checkpointId])
        assert.deepEqual(
          recovered.passedOver.map((entry) => [entry.id, entry.code]),
          [[bad.checkpointId, code]],
        )
        assert.equal((await store.loadSession('s')).name, 'good')
        assert.ok(existsSync(bad.path), 'nothing is deleted for being damaged')
        assert.equal((await checkpointOf(store, makeSession('s'))).success, true)
      })
    }
  }

  it('may be a directory, a link or a pipe instead of a file', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const good = await checkpointOf(store, makeSession('s'))
    const at = (name) => join(base, 's', 'checkpoints', name)
    mkdirSync(at('cp-1-000001.json'))
    if (process.platform !== 'win32') symlinkSync('/etc/hostname', at('cp-1-000002.json'))
    for (const id of ['cp-1-000001', ...(process.platform === 'win32' ? [] : ['cp-1-000002'])]) {
      await assert.rejects(store.getCheckpoint('s', id), { code: 'WAYMARK_CORRUPT', message: /it is not a file$/ })
    }
    assert.equal((await store.getLatestCheckpoint('s')).id, good.checkpointId)
  })

  it('is quarantined on request and kept', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const good = await checkpointOf(store, makeSession('s'))
    const bad = []
    for (const [change] of [DAMAGE.empty, DAMAGE['with one value changed'], DAMAGE['of a newer version']]) {
      bad.push(await checkpointOf(store, makeSession('s')))
      damage(bad.at(-1).path, change)
    }
    const before = snapshotOf(base)
    const planned = await store.recoverSession('s', { quarantine: true, dryRun: true })
    assert.deepEqual(snapshotOf(base), before)
    const { success, checkpointId, passedOver } = await store.recoverSession('s', { quarantine: true })
    assert.deepEqual([success, checkpointId], [true, good.checkpointId])
    assert.equal(planned.checkpointId, checkpointId)
    assert.deepEqual(
      planned.passedOver,
      passedOver.map(({ movedTo: _, ...entry }) => entry),
    )
    assert.deepEqual(
      passedOver.map((entry) => entry.id),
      bad.map((entry) => entry.checkpointId).toReversed(),
    )
    const [newer, changed, empty] = passedOver
    assert.equal('movedTo' in newer, false, 'a newer version is not damaged')
    assert.equal(readFileSync(empty.movedTo).length, 0)
    assert.match(readFileSync(changed.movedTo, 'utf8'), /task-7/)
    assert.deepEqual(readdirSync(join(base, 's', 'damaged')).length, 2)
    assert.equal((await store.listCheckpoints('s')).total, 2)
    assert.equal((await store.recoverSession('s', { quarantine: true })).passedOver.length, 1)
  })

  it('that is not a file is quarantined too', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const good = await checkpointOf(store, makeSession('s'))
    const bad = await checkpointOf(store, makeSession('s'))
    rmSync(bad.path)
    mkdirSync(bad.path)
    const { checkpointId, passedOver } = await store.recoverSession('s', { quarantine: true })
    assert.equal(checkpointId, good.checkpointId)
    assert.equal(passedOver[0].id, bad.checkpointId)
    assert.ok(existsSync(passedOver[0].movedTo))
    assert.equal((await store.listCheckpoints('s')).total, 1)
  })
})

describe('hostile documents', () => {
  it('that are deeply nested neither crash nor hang', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { checkpointId, path } = await checkpointOf(store, makeSession('s'))
    const text = readFileSync(path, 'utf8')
    for (const depth of [1000, 100_000]) {
      const deep = '['.repeat(depth) + ']'.repeat(depth)
      writeFileSync(path, text.replace('"taskTree": {', `"taskTree": {"deep": ${deep},`))
      assert.equal((await store.verifyCheckpoint('s', checkpointId)).whole, false)
      const restored = await store.restoreCheckpoint({ checkpointId })
      assert.ok(restored.success || restored.code === 'WAYMARK_TOO_LARGE', restored.error)
    }
    writeFileSync(path, '['.repeat(5_000_000))
    await assert.rejects(store.getCheckpoint('s', checkpointId), { code: 'WAYMARK_CORRUPT' })
  })

  it('keep a __proto__ key as data', async () => {
    const store = await openStore()
    const context = JSON.parse('{"__proto__": {"polluted": true}}')
    const session = { ...makeSession('s'), metadata: JSON.parse('{"__proto__": 1}') }
    const { checkpointId } = await checkpointOf(store, session, OPTIONS, {}, context)
    const { state } = await store.restoreCheckpoint({ checkpointId, includeState: true, validateChecksum: true })
    assert.equal({}.polluted, undefined)
    assert.equal(JSON.stringify(state.contextStore), '{"__proto__":{"polluted":true}}')
    assert.equal(JSON.stringify((await store.loadSession('s')).metadata), '{"__proto__":1}')
  })
})

onEveryBackend('recoverSession', (open) => {
  it('restores the newest checkpoint, with resets and state on request', async () => {
    const store = await open()
    const taskTree = {
      a: makeTask('a', { status: 'in_progress', startedAt: 1 }),
      b: makeTask('b', { status: 'failed' }),
    }
    await checkpointOf(store, makeSession('s', { name: 'older' }))
    const newest = await checkpointOf(store, makeSession('s', { taskTree }), OPTIONS, { x: makeAgent('x') }, { key: 1 })
    const options = { resetInProgressTasks: true, resetFailedTasks: true, includeState: true }
    const planned = await store.recoverSession('s', { ...options, dryRun: true })
    assert.deepEqual([await store.loadSession('s'), await store.loadTaskTree('s')], [null, null])
    const recovered = await store.recoverSession('s', options)
    assert.deepEqual(planned, recovered)
    assert.equal(recovered.checkpointId, newest.checkpointId)
    assert.deepEqual(recovered.passedOver, [])
    assert.deepEqual(recovered.warnings, ['Reset failed task: b', 'Reset in-progress task: a'])
    assert.deepEqual([recovered.restoredTasks, recovered.restoredAgents], [2, 1])
    assert.deepEqual(recovered.state.contextStore, { key: 1 })
    assert.deepEqual(await store.loadTaskTree('s'), recovered.state.taskTree)
  })

  it('without a checkpoint returns a result', async () => {
    const store = await open()
    assert.deepEqual(await store.recoverSession('s'), {
      success: false,
      restoredTasks: 0,
      restoredAgents: 0,
      warnings: [],
      error: 'Session s has no checkpoint to recover from',
      code: 'WAYMARK_NOT_FOUND',
      passedOver: [],
    })
  })

  it('with invalid arguments changes nothing', async () => {
    const store = await open()
    await checkpointOf(store, makeSession('s'))
    const refused = await store.recoverSession('../s')
    assert.deepEqual([refused.code, refused.passedOver, refused.warnings], ['WAYMARK_INVALID_ID', [], []])
    assert.equal((await store.recoverSession(5)).code, 'WAYMARK_INVALID_ARGUMENT')
    assert.equal((await store.recoverSession('s', 'now')).code, 'WAYMARK_INVALID_ARGUMENT')
    assert.equal((await store.recoverSession('s', { quarantine: 1 })).code, 'WAYMARK_INVALID_ARGUMENT')
    await assert.rejects(store.verifySession('..'), { code: 'WAYMARK_INVALID_ID' })
    await assert.rejects(store.verifyCheckpoint('s', null), { code: 'WAYMARK_INVALID_ARGUMENT' })
    assert.equal(await store.loadSession('s'), null)
  })
})
