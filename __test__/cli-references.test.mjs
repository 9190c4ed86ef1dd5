import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { before, describe, it } from 'node:test'

import { makeSession } from './support/sessions.mjs'
import { checkpointOf, openStore } from './support/stores.mjs'

const require = createRequire(import.meta.url)
const { checkpoint, pick, sessionId, split } = require('../cli/references.js')
const { isLocation } = require('../cli/location.js')

/** As `checkpointsOf()` gives them, newest first. */
const CHECKPOINTS = [
  { id: 'cp-30', info: { id: 'cp-30', label: 'cp-1' } },
  { id: 'cp-21', damaged: { id: 'cp-21' } },
  { id: 'cp-20', info: { id: 'cp-20', label: 'green' } },
  { id: 'cp-10', info: { id: 'cp-10', label: 'latest~1' } },
  { id: 'cp-1', info: { id: 'cp-1', label: 'green' } },
]

const picked = (ref) => pick(CHECKPOINTS, ref, 's').id
const refusal = (ref) => {
  try {
    pick(CHECKPOINTS, ref, 's')
  } catch (error) {
    return error
  }
  throw new Error(`${ref} was found`)
}

describe('a word for a checkpoint', () => {
  it('is an id before it is a label, and before it is the beginning of others', () => {
    assert.equal(picked('cp-1'), 'cp-1')
  })

  it('counts back from the newest, damaged ones included', () => {
    assert.deepEqual(['latest', 'latest~0', 'latest~1', 'latest~4'].map(picked), ['cp-30', 'cp-30', 'cp-21', 'cp-1'])
  })

  it('is the newest of those that have a label', () => {
    assert.equal(picked('green'), 'cp-20')
  })

  it('is a beginning, if that is unique', () => {
    assert.equal(picked('cp-3'), 'cp-30')
    const { exitCode, message, details } = refusal('cp-2')
    assert.equal(exitCode, 2)
    assert.match(message, /Several checkpoints of s begin with "cp-2"/)
    assert.deepEqual(details, ['cp-21', 'cp-20'])
  })

  it('that means nothing is refused, with names that are near', () => {
    assert.match(refusal('gren').message, /no checkpoint "gren"\. Did you mean green/)
    assert.match(refusal('latest~5').message, /only 5 checkpoints/)
    for (const ref of ['', 'latest~', 'latest~-1', 'LATEST~99999999999999999999'])
      assert.equal(refusal(ref).exitCode, 2)
  })

  it('has the session before its first slash', () => {
    assert.deepEqual(split('s/a/b'), { session: 's', ref: 'a/b' })
    assert.deepEqual(split('s'), { session: 's', ref: undefined })
  })
})

describe('a word for a session', () => {
  let store

  before(async () => {
    store = await openStore('memory:')
    for (const id of ['nightly', 'nightly-2', 'weekly']) await store.saveSession(makeSession(id))
    await checkpointOf(store, makeSession('unsaved'))
  })

  it('is an id, or a unique beginning of one, saved or not', async () => {
    assert.equal(await sessionId(store, 'nightly'), 'nightly')
    assert.equal(await sessionId(store, 'w'), 'weekly')
    assert.equal(await sessionId(store, 'uns'), 'unsaved')
  })

  it('that fits several, or none, is refused', async () => {
    await assert.rejects(sessionId(store, 'nigh'), { exitCode: 2, details: ['nightly', 'nightly-2'] })
    await assert.rejects(sessionId(store, 'weakly'), /Did you mean weekly\? waymark ls .*lists the sessions/)
    await assert.rejects(sessionId(store, ''), { exitCode: 2 })
    await assert.rejects(sessionId(store, './weekly'), /The session comes first, the location last/)
    await assert.rejects(
      sessionId(store, 'weekly/latest'),
      /is a checkpoint, and a session is wanted here: write weekly/,
    )
  })

  it('may be left out where another one says it', async () => {
    const { checkpointId } = await checkpoint(store, 'unsaved/latest')
    assert.equal((await checkpoint(store, 'latest', { session: 'unsaved' })).checkpointId, checkpointId)
    await assert.rejects(checkpoint(store, 'unsaved'), /names no checkpoint: write unsaved\/latest/)
  })
})

describe('a single word', () => {
  it('is a location if it begins like one', () => {
    const places = [
      '/x',
      './x',
      '../x',
      '~/x',
      '.',
      '..',
      '~',
      'C:\\x',
      'd:/x',
      '.\\x',
      'sqlite:x.db',
      'postgres://h/d',
    ]
    for (const word of [...places, 'postgresql://h/d', 'memory:', 'redis://h'])
      assert.equal(isLocation(word), true, word)
    for (const word of ['x', 'x/y', '.x', '~x', 'a:b', 'sqlite', 'x.db', '...'])
      assert.equal(isLocation(word), false, word)
  })
})
