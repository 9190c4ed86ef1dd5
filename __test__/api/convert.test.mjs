import assert from 'node:assert/strict'
import { readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { assertAllWhole, assertWhole, createInSequence } from '../support/deltas.mjs'
import { runNode } from '../support/processes.mjs'
import { makeAgent, makeSession, makeTask } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'

const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

/** A session with a few hundred tasks and an agent; consecutive checkpoints differ by one task. */
async function filled(store, { encodings = ['json'], count = 8 } = {}) {
  const session = makeSession('s')
  session.taskTree = Object.fromEntries(
    Array.from({ length: 300 }, (_, at) => [`t${at}`, makeTask(`t${at}`, { prompt: `do «${at}» ${Math.sin(at)}` })]),
  )
  const ids = []
  for (let number = 0; number < count; number++) {
    session.taskTree[`t${number}`].result = { success: true, output: `done ${number} ✓` }
    const encoding = encodings[number % encodings.length]
    const options = { ...OPTIONS, encoding, label: `number ${number}`, metadata: { number } }
    const made = await checkpointOf(store, session, options, { x: makeAgent('x') }, { number })
    ids.push(made.checkpointId)
    session.lastCheckpointId = made.checkpointId
  }
  const agent = store.agent('s', 'writer')
  await agent.save({ iteration: 1, messages: [{ role: 'user', content: 'é' }], context: new Uint8Array([0, 255, 7]) })
  await agent.save({ iteration: 2, status: 'halted', statusReason: 'loop' })
  return ids
}

/** Everything readable of the session, without how it is stored. */
async function everything(store) {
  const { checkpoints } = await store.listCheckpoints('s')
  const agents = await store.agent('s', 'writer').list()
  const { checkpoints: infos } = await store.listCheckpointInfo('s')
  const bare = ({ sizeBytes: _, encoding: __, path: ___, ...rest }) => rest
  return {
    checkpoints: checkpoints.map(bare),
    agents: agents.checkpoints.map(bare),
    infos: infos.map(bare),
  }
}

const encodingsOf = async (store) =>
  new Set((await store.listCheckpointInfo('s')).checkpoints.map(({ encoding }) => encoding))

/** Aborts a conversion after this many checkpoints. */
async function abortedConversion(store, encoding, after) {
  const controller = new AbortController()
  const onProgress = ({ done }) => done >= after && controller.abort()
  await store.convert('s', encoding, { signal: controller.signal, onProgress }).catch((error) => {
    assert.equal(error.name, 'AbortError')
  })
}

onEveryBackend('convert', (open) => {
  for (const encoding of ENCODINGS) {
    it(`stores every checkpoint as ${encoding} and changes nothing else`, async () => {
      const store = await open()
      const ids = await filled(store, { encodings: ENCODINGS.filter((other) => other !== encoding) })
      await store.pinCheckpoint('s', ids[2])
      await store.labelCheckpoint('s', ids[3], 'given later')
      const before = await everything(store)
      const result = await store.convert('s', encoding)
      assert.equal(result.converted, 8 + (encoding === 'json' ? 0 : 2))
      assert.deepEqual(result.skipped, [])
      assert.deepEqual(await everything(store), before)
      assert.deepEqual(await encodingsOf(store), new Set([encoding]))
      assert.equal((await store.verifySession('s')).whole, true)
      const again = await store.convert('s', encoding)
      assert.deepEqual([again.converted, again.unchanged], [0, 10])
      assert.equal(again.bytesBefore, result.bytesAfter)
    })
  }

  it('converts through all encodings and back', async () => {
    const store = await open()
    await filled(store)
    const before = await everything(store)
    const sizes = {}
    for (const encoding of [...ENCODINGS, ...ENCODINGS.toReversed()]) {
      const result = await store.convert('s', encoding)
      sizes[encoding] = result.bytesAfter
    }
    assert.deepEqual(await everything(store), before)
    assert.ok(sizes.gzip < sizes.json / 3 && sizes.delta < sizes.zstd / 3, JSON.stringify(sizes))
  })

  it('keeps damaged checkpoints, reports why, and converts the others', async () => {
    const store = await open()
    const [first] = await filled(store, { encodings: ['gzip'], count: 3 })
    const other = await openStore()
    await store.copyTo(other)
    const path = join(other.getBaseDir(), 's', 'checkpoints', `${first}.json.gz`)
    writeFileSync(path, readFileSync(path).subarray(0, 200))
    // A damaged checkpoint does not replace a whole one.
    await store.deleteCheckpoint('s', first)
    await other.copyTo(store)
    const result = await store.convert('s', 'zstd')
    assert.deepEqual(
      result.skipped.map(({ id, code }) => ({ id, code })),
      [{ id: first, code: 'WAYMARK_CORRUPT' }],
    )
    assert.equal(result.converted, 2 + 2)
  })

  it('rejects an unknown encoding and an unknown session', async () => {
    const store = await open()
    await filled(store, { count: 1 })
    for (const wrong of ['brotli', '', undefined, null, 7, {}])
      await assert.rejects(store.convert('s', wrong), { code: 'WAYMARK_INVALID_ARGUMENT' })
    await assert.rejects(store.convert('unknown', 'zstd'), { code: 'WAYMARK_NOT_FOUND' })
    await assert.rejects(store.convert('../s', 'zstd'), { code: 'WAYMARK_INVALID_ID' })
  })
})

describe('convert (files)', () => {
  it('updates the link to the newest checkpoint', async () => {
    const store = await openStore()
    const ids = await filled(store)
    await store.convert('s', 'delta')
    const link = readlinkSync(join(store.getBaseDir(), 's', 'latest'))
    assert.equal(link, join('checkpoints', `${ids.at(-1)}.delta.zst`))
  })

  it('removes base files that no delta needs any more', async () => {
    const store = await openStore(scratchDirectory(), { encoding: 'delta' })
    await filled(store, { encodings: [undefined] })
    await store.convert('s', 'json')
    const names = readdirSync(join(store.getBaseDir(), 's', 'checkpoints')).filter((name) => name.includes('zst'))
    assert.deepEqual(names, [])
  })

  it('keeps the position of checkpoints with foreign names', async () => {
    const store = await openStore()
    await filled(store, { count: 3 })
    const directory = join(store.getBaseDir(), 's', 'checkpoints')
    const name = readdirSync(directory).find((file) => file.startsWith('cp-'))
    const text = readFileSync(join(directory, name), 'utf8')
    writeFileSync(join(directory, 'by-hand.json'), text)
    const order = async () => (await store.listCheckpointInfo('s')).checkpoints.map(({ id }) => id)
    const before = await order()
    assert.equal(before[0], 'by-hand')
    await new Promise((resolve) => setTimeout(resolve, 20))
    await checkpointOf(store, makeSession('s'))
    const newest = (await order())[0]
    await store.convert('s', 'delta')
    assert.deepEqual(await order(), [newest, ...before])
  })

  it('completes what a killed process began', async () => {
    const store = await openStore()
    await filled(store, { count: 30 })
    const before = await everything(store)
    for (const after of [5, 15, 30]) {
      const killed = await runNode(`
        const store = new CheckpointStore(${JSON.stringify(store.getBaseDir())})
        await store.initialize()
        setTimeout(() => process.kill(process.pid, 'SIGKILL'), ${after})
        await store.convert('s', 'delta')
        await new Promise((resolve) => setTimeout(resolve, 1000))`)
      assert.equal(killed.signal, 'SIGKILL')
      const { checkpoints, damaged } = await store.listCheckpoints('s')
      assert.deepEqual(damaged, [])
      assert.equal(new Set(checkpoints.map(({ id }) => id)).size, 30)
    }
    await store.convert('s', 'delta')
    assert.deepEqual(await everything(store), before)
    assert.deepEqual(await encodingsOf(store), new Set(['delta']))
  })
})

onEveryBackend('an interrupted convert', (open) => {
  for (const after of [1, 4, 9, 17]) {
    it(`to zstd after ${after} checkpoints and then to delta keeps every checkpoint readable`, async () => {
      const store = await open()
      const created = await createInSequence(store, 30)
      await abortedConversion(store, 'zstd', after)
      await store.convert('s', 'delta')
      await assertAllWhole(store, created)
      await abortedConversion(store, 'json', after)
      await store.convert('s', 'delta')
      await createInSequence(store, 3, { first: 30 })
      await assertWhole(store)
    })
  }
})
