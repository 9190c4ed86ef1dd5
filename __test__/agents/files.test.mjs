import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'

import { idsIn, makeState, saved } from '../support/agents.mjs'
import { readCheckpointText, rewriteCheckpoint } from '../support/original-format.mjs'
import { runNode } from '../support/processes.mjs'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

const isWindows = process.platform === 'win32'

const MEMBERS =
  'id sessionId agentId timestamp iteration status statusReason label tokensUsed costEstimate expiresAt messages toolCalls pendingToolCalls partialResults resumeHint metadata mine  ttlMs context version sizeBytes messageCount toolCallCount integrity'

/** Kinds of damage: the change of the text, and the expected error code. */
const DAMAGE = {
  'cut off': [(text) => text.slice(0, text.length / 2), 'WAYMARK_CORRUPT'],
  'cut off at its last byte': [(text) => text.slice(0, -1), 'WAYMARK_CORRUPT'],
  empty: [() => '', 'WAYMARK_CORRUPT'],
  'all zeros': [(text) => '\0'.repeat(text.length), 'WAYMARK_CORRUPT'],
  'no JSON': [() => 'hello', 'WAYMARK_CORRUPT'],
  'JSON of another kind': [() => '[1, 2]', 'WAYMARK_CORRUPT'],
  'of a newer version': [(text) => text.replace('1.0.0', '2.0.0'), 'WAYMARK_NEWER_VERSION'],
  'under the name of another': [(text) => text.replace(/cp-[0-9a-z]+-/, 'cp-00000000-'), 'WAYMARK_CORRUPT'],
  'with a message changed': [(text) => text.replace('Write a parser', 'Write a Parser'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'with its iteration changed': [
    (text) => text.replace(/"iteration": ?2/, '"iteration":3'),
    'WAYMARK_CHECKSUM_MISMATCH',
  ],
  'with its bytes changed': [(text) => text.replace('AP8K', 'AP8L'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'with bytes that are no base64': [(text) => text.replace('AP8K', 'AP8!'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'with its agent changed': [(text) => text.replace(/"agentId": ?"a"/, '"agentId":"b"'), 'WAYMARK_CHECKSUM_MISMATCH'],
  'with its checksum gone': [(text) => text.replace(/,\s*"integrity": ?"\w+"/, ''), 'WAYMARK_CHECKSUM_MISMATCH'],
}

describe('agent files', () => {
  it('are in one directory per agent, readable by their owner only', async () => {
    const base = join(scratchDirectory(), 'base')
    const store = await openStore(base)
    const plain = await saved(store.agent('s', 'a'), makeState())
    const packed = await saved(store.agent('s', 'b'), makeState(), { compress: true })
    assert.equal(plain.path, join(base, 's/agents/a', `${plain.checkpointId}.json`))
    assert.equal(packed.path, join(base, 's/agents/b', `${packed.checkpointId}.json.gz`))
    assert.deepEqual(readdirSync(join(base, 's')), ['agents'])
    assert.deepEqual(readdirSync(join(base, 's/agents')).toSorted(), ['a', 'b'])
    assert.deepEqual(readdirSync(dirname(plain.path)).toSorted(), ['.names', `${plain.checkpointId}.json`])
    for (const { path, sizeBytes } of [plain, packed]) {
      assert.equal(statSync(path).size, sizeBytes)
      if (isWindows) continue
      assert.equal((statSync(path).mode & 0o777).toString(8), '600')
      assert.equal((statSync(dirname(path)).mode & 0o777).toString(8), '700')
    }
  })

  it('are indented JSON with the listed members first, and compact JSON when compressed', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const state = makeState({ context: new Uint8Array([0, 255, 10]), ttlMs: 3_600_000 })
    for (const compress of [false, true]) {
      const { path } = await saved(agent, state, { compress })
      const text = readCheckpointText(path)
      const value = JSON.parse(text)
      assert.equal(text, JSON.stringify(value, null, compress ? 0 : 2))
      assert.equal(Object.keys(value).join(' '), MEMBERS)
      assert.deepEqual([value.context, value.sizeBytes], ['AP8K', 0])
      const { integrity, ...covered } = value
      assert.equal(integrity, createHash('sha256').update(JSON.stringify(covered)).digest('hex'))
    }
  })

  it('are whole in any layout and spelling, with the same bytes', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const context = Uint8Array.from({ length: 256 }, (_, index) => index)
    const { checkpointId, path } = await saved(agent, makeState({ context }))
    const before = await agent.latest()
    const text = readFileSync(path, 'utf8')
    const respelt = text
      .replaceAll('/', '\\/')
      .replace('"iteration": 7', '"iteration": 7.0e0')
      .replace('parser', '\\u0070arser')
    assert.ok(respelt.includes('\\/'))
    for (const edited of [0, 1, 4, '\t']
      .map((indent) => JSON.stringify(JSON.parse(text), null, indent))
      .concat(respelt)) {
      writeFileSync(path, edited)
      const sizeBytes = Buffer.byteLength(edited)
      assert.deepEqual(await agent.verify(checkpointId), { id: checkpointId, path, sizeBytes, whole: true })
      assert.deepEqual(await agent.latest(), { ...before, sizeBytes })
      assert.deepEqual(await agent.list(), { checkpoints: [{ ...before, sizeBytes }], total: 1, damaged: [] })
      const [info] = (await agent.info()).checkpoints
      assert.deepEqual([info.id, info.iteration, info.messageCount, info.sizeBytes], [checkpointId, 7, 3, sizeBytes])
    }
  })

  it('that do not belong to an agent are ignored', async () => {
    const base = scratchDirectory()
    const store = await openStore(base)
    const { path } = await saved(store.agent('s', 'a'), {})
    for (const name of ['idle', '.hidden', 'CON']) mkdirSync(join(base, 's/agents', name))
    writeFileSync(join(base, 's/agents/notes.txt'), 'x')
    writeFileSync(join(base, 's/agents/idle/notes.txt'), 'x')
    writeFileSync(join(dirname(path), 'notes.txt'), 'x')
    assert.deepEqual(await store.listAgents('s'), ['a'])
    assert.deepEqual([(await store.agent('s', 'a').info()).total, await store.agent('s', 'idle').has()], [1, false])
    assert.equal(await store.agent('s', 'a').clear(), 1)
    assert.deepEqual(readdirSync(dirname(path)).toSorted(), ['.names', 'notes.txt'])
  })

  it('are not read through symbolic links', { skip: isWindows && 'links need a privilege there' }, async () => {
    const base = scratchDirectory()
    const [store, elsewhere] = [await openStore(base), await openStore()]
    const { path } = await saved(elsewhere.agent('s', 'a'), {})
    mkdirSync(join(base, 's/agents'), { recursive: true })
    symlinkSync(dirname(path), join(base, 's/agents/a'))
    const agent = store.agent('s', 'a')
    assert.deepEqual([await agent.latest(), await agent.has(), await agent.clear()], [null, false, 0])
    assert.equal((await agent.save({})).code, 'WAYMARK_IO')
    assert.deepEqual(await store.listAgents('s'), [])
    assert.equal((await store.deleteSession('s')).success, true)
    assert.equal(await elsewhere.agent('s', 'a').has(), true)
  })
})

describe('damaged agent checkpoints', () => {
  for (const compress of [false, true]) {
    for (const [kind, [change, code]] of Object.entries(DAMAGE)) {
      it(`are reported by every method that reads them: ${kind}${compress ? ', compressed' : ''}`, async () => {
        const store = await openStore()
        const agent = store.agent('s', 'a')
        const context = new Uint8Array([0, 255, 10])
        const good = await saved(agent, makeState({ iteration: 1 }))
        const bad = await saved(agent, makeState({ iteration: 2, context }), { compress })
        rewriteCheckpoint(bad.path, change)
        const found = await agent.latest()
        assert.deepEqual([found.id, found.iteration], [good.checkpointId, 1])
        const named = ({ id, path, code: given, error }) => [id, path, given, error.includes(path)]
        const expected = [[bad.checkpointId, bad.path, code, true]]
        assert.deepEqual(found.passedOver.map(named), expected)
        for (const order of ['newest', 'iteration']) {
          const page = await agent.list({ order })
          assert.deepEqual([idsIn(page), page.total, page.damaged.map(named)], [[good.checkpointId], 2, expected])
        }
        assert.equal((await agent.info()).total, 2)
        await assert.rejects(agent.get(bad.checkpointId), { code })
        const verdict = await agent.verify(bad.checkpointId)
        assert.deepEqual([verdict.whole, verdict.code, verdict.path], [false, code, bad.path])
        const report = await store.verifySession('s')
        assert.equal(report.whole, false)
        assert.deepEqual(
          report.agentCheckpoints.map(({ agentId, id, whole }) => [agentId, id, whole]),
          [
            ['a', bad.checkpointId, false],
            ['a', good.checkpointId, true],
          ],
        )
        await agent.delete(good.checkpointId)
        await assert.rejects(agent.latest(), { code })
        assert.equal(await agent.has(), true)
        assert.equal(await agent.clear(), 1)
        assert.equal(await agent.latest(), null)
      })
    }
  }

  it('are skipped, newest first, down to a whole checkpoint', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const made = []
    for (const iteration of [1, 2, 3, 4, 5, 6]) made.unshift(await saved(agent, makeState({ iteration })))
    const changes = ['with a message changed', 'cut off', 'of a newer version', 'with a message changed']
    for (const [index, kind] of changes.entries()) rewriteCheckpoint(made[index].path, DAMAGE[kind][0])
    // Older than the returned checkpoint, so never read.
    rewriteCheckpoint(made[5].path, DAMAGE.empty[0])
    const { iteration, passedOver } = await agent.latest()
    assert.equal(iteration, 2)
    assert.deepEqual(
      passedOver.map(({ id, code }) => [id, code]),
      changes.map((kind, index) => [made[index].checkpointId, DAMAGE[kind][1]]),
    )
    rewriteCheckpoint(made[4].path, DAMAGE['no JSON'][0])
    await assert.rejects(agent.latest(), {
      code: 'WAYMARK_CHECKSUM_MISMATCH',
      message: new RegExp(made[0].checkpointId),
    })
  })

  it('are detected by their gzip container', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const { checkpointId, path, sizeBytes } = await saved(agent, makeState(), { compress: true })
    const bytes = readFileSync(path)
    for (const length of [0, 1, 9, 10, 200, sizeBytes - 9, sizeBytes - 1]) {
      writeFileSync(path, bytes.subarray(0, length))
      await assert.rejects(agent.latest(), { code: 'WAYMARK_CORRUPT' })
      assert.equal((await agent.verify(checkpointId)).code, 'WAYMARK_CORRUPT')
      assert.deepEqual((await agent.list()).damaged[0].code, 'WAYMARK_CORRUPT')
    }
    writeFileSync(path, bytes)
    assert.equal((await agent.latest()).id, checkpointId)
  })

  it('do not affect other agents or the session', async () => {
    const store = await openStore()
    const bad = await saved(store.agent('s', 'a'), makeState())
    rewriteCheckpoint(bad.path, DAMAGE.empty[0])
    const good = await saved(store.agent('s', 'b'), makeState())
    await checkpointOf(store, makeSession('s'))
    assert.deepEqual(await store.listAgents('s'), ['a', 'b'])
    assert.equal((await store.agent('s', 'b').latest()).id, good.checkpointId)
    assert.equal((await store.recoverSession('s')).success, true)
    assert.equal((await saved(store.agent('s', 'a'), makeState())).success, true)
    assert.deepEqual((await store.agent('s', 'a').latest()).iteration, 7)
  })

  it('are told apart from a checkpoint that exceeds maxReadBytes', async () => {
    const base = scratchDirectory()
    const { checkpointId } = await saved((await openStore(base)).agent('s', 'a'), { context: new Uint8Array(10_000) })
    const careful = (await openStore(base, { maxReadBytes: 1000 })).agent('s', 'a')
    await assert.rejects(careful.latest(), { code: 'WAYMARK_TOO_LARGE' })
    assert.equal((await careful.verify(checkpointId)).code, 'WAYMARK_TOO_LARGE')
    assert.equal((await careful.info()).checkpoints[0].id, checkpointId)
  })
})

describe('several processes', () => {
  it('save the same agent without loss and keep to maxCheckpointsPerAgent', async () => {
    const base = scratchDirectory()
    const script = (limit) => `
      const store = new CheckpointStore(${JSON.stringify(base)}, { maxCheckpointsPerAgent: ${limit} })
      await store.initialize()
      const agent = store.agent('s', ${limit} > 99 ? 'all' : 'few')
      for (let iteration = 0; iteration < 12; iteration += 1) {
        const context = new Uint8Array(1000).fill(iteration)
        const result = await agent.save({ iteration, context }, { compress: iteration % 2 === 0 })
        if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    `
    const runs = await Promise.all([Infinity, Infinity, Infinity, 8, 8].map((limit) => runNode(script(limit))))
    for (const { code, stdout, stderr } of runs) {
      assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' })
    }
    const store = await openStore(base)
    const all = await store.agent('s', 'all').list({ order: 'iteration' })
    assert.deepEqual([all.total, all.damaged], [36, []])
    assert.ok(all.checkpoints.every(({ iteration, context }) => context.every((byte) => byte === iteration)))
    assert.deepEqual((await store.agent('s', 'few').info()).total, 8)
    assert.equal((await store.verifySession('s')).whole, true)
  })
})

describe('agent checkpoint files', () => {
  const reindented = async (state) => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    const { checkpointId, path } = await saved(agent, state)
    writeFileSync(path, JSON.stringify(JSON.parse(readFileSync(path, 'utf8')), null, 4))
    return agent.verify(checkpointId)
  }

  it('are whole after re-indentation, even with members named like array indices', async () => {
    // Engines list index-like keys first.
    assert.equal((await reindented({ b: 1, 7: 'seven', 0: 'zero' })).whole, true)
  })

  it('are whole after re-indentation, even with a ttlMs beyond exact integers', async () => {
    for (const ttlMs of [Number.MAX_SAFE_INTEGER, 1e300]) assert.equal((await reindented({ ttlMs })).whole, true)
  })

  it('do not record which damaged checkpoints were skipped before them', async () => {
    const store = await openStore()
    const agent = store.agent('s', 'a')
    await saved(agent, { iteration: 1 })
    const damaged = await saved(agent, { iteration: 2 })
    writeFileSync(damaged.path, '')
    const found = await agent.latest()
    assert.equal(found.passedOver.length, 1)
    await saved(agent, { ...found, iteration: 3 })
    const next = await agent.latest()
    assert.equal(next.iteration, 3)
    assert.equal('passedOver' in next, false)
  })
})
