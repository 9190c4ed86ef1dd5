import assert from 'node:assert/strict'
import { constants } from 'node:buffer'
import { readFileSync, writeFileSync } from 'node:fs'
import { freemem } from 'node:os'
import { describe, it } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'

import { makeSession } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, durableBackends, openStore } from '../support/stores.mjs'

const GIB = 2 ** 30

/** V8's limit on 64-bit systems, in UTF-16 code units. */
const LIMIT = 2 ** 29 - 24

const available = process.availableMemory?.() ?? freemem()
const tooLittle = available < 5 * GIB && `needs 5 GiB of free memory, and ${(available / GIB).toFixed(1)} are free`
const otherLimit = constants.MAX_STRING_LENGTH !== LIMIT && 'this engine has another limit'
// The limit is the same on every backend: one run is enough.
const elsewhere = !durableBackends.includes('files') && 'runs with the other backends'

describe('states longer than a JavaScript string', { skip: tooLittle || otherLimit || elsewhere }, () => {
  /** Two of these fit into a string, three do not. Longer ones crash `JSON.stringify` of Node 26. */
  const third = () => 'x'.repeat(190_000_000)

  it('createCheckpoint rejects them with WAYMARK_TOO_LARGE', async () => {
    const store = await openStore('memory:')
    const part = third()
    const session = makeSession('s', { taskTree: { part } })
    for (const encoding of ['json', 'delta']) {
      const { success, code, error } = await store.createCheckpoint(
        session,
        { part },
        { part },
        { ...OPTIONS, encoding },
      )
      assert.deepEqual([encoding, success, code], [encoding, false, 'WAYMARK_TOO_LARGE'])
      assert.match(error, /a JavaScript string holds at most 536870888.*Store large parts by themselves/s)
    }
    assert.equal((await store.listCheckpointInfo('s')).total, 0)
  })

  it('recoverSession and recoverable report a stored one and use the one before', async () => {
    const store = await openStore(undefined, { durability: 'relaxed' })
    const older = await checkpointOf(store, makeSession('s'))
    const newer = await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true }, {}, { part: 'HERE' })
    const [start, end] = gunzipSync(readFileSync(newer.path)).toString().split('HERE')
    // The content of a gzip file is the concatenation of its members.
    const filler = gzipSync(Buffer.alloc(1_100_000, 'x'), { level: 1 })
    const members = [gzipSync(start), ...Array.from({ length: 500 }, () => filler), gzipSync(end)]
    writeFileSync(newer.path, Buffer.concat(members))

    const [line, ...others] = await store.recoverable()
    assert.deepEqual(others, [])
    assert.equal(line.checkpoint.id, older.checkpointId)
    const named = ({ id, code }) => [id, code]
    assert.deepEqual(line.damaged.map(named), [[newer.checkpointId, 'WAYMARK_TOO_LARGE']])
    const recovered = await store.recoverSession('s', { includeState: true })
    assert.deepEqual([recovered.success, recovered.checkpointId], [true, older.checkpointId], recovered.error)
    assert.deepEqual(recovered.passedOver.map(named), [[newer.checkpointId, 'WAYMARK_TOO_LARGE']])
  })
})

describe('documents longer than a JavaScript string', { skip: tooLittle || otherLimit || elsewhere }, () => {
  /** Nested so deeply that white space alone makes the stored text longer than a string. */
  const deep = () => JSON.parse('['.repeat(3000) + ']'.repeat(3000))

  it('saveSession, saveTaskTree and saveTaskResult reject them with WAYMARK_TOO_LARGE', async () => {
    const store = await openStore('memory:')
    // Each of these is 18 MB when it is indented and 6 KB when it is passed.
    const parts = Array.from({ length: 31 }, deep)
    const session = makeSession('s', { metadata: { parts } })
    for (const result of [
      await store.saveSession(session),
      await store.saveSession(session, { ifRevision: null }),
      await store.saveTaskTree('s', { parts }),
      await store.saveTaskResult('s', 't', parts),
    ]) {
      assert.deepEqual([result.success, result.code], [false, 'WAYMARK_TOO_LARGE'], result.error)
    }
    assert.deepEqual(await store.listSessions(), [])
  })
})
