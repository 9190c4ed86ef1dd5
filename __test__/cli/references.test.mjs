import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { before, describe, it } from 'node:test'

import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, openStore } from '../support/stores.mjs'

const require = createRequire(import.meta.url)
const { checkpoint, pick, sessionId, split } = require('../../cli/input/references.js')
const { isLocation } = require('../../cli/input/location.js')

/** As `checkpointsOf()` gives them, newest first. */
const CHECKPOINTS = [
  { id: 'cp-30', info: { id: 'cp-30', label: 'cp-1' } },
  { id: 'cp-21', damaged: { id: 'cp-21' } },
  { id: 'cp-20', info: { id: 'cp-20', label: 'green' } },
  { id: 'cp-10', info: { id: 'cp-10', label: 'latest~1' } },
  { id: 'cp-1', info: { id: 'cp-1', label: 'green' } },
]

const picked = (ref) => pick(CHECKPOINTS, ref, 's').id
const errorFor = (ref) => {
  try {
    pick(CHECKPOINTS, ref, 's')
  } catch (error) {
    return error
  }
  throw new Error(`${ref} was accepted`)
}

describe('a checkpoint reference', () => {
  it('matches an id before a label or a prefix', () => {
    assert.equal(picked('cp-1'), 'cp-1')
  })

  it('counts back from the newest checkpoint with latest~n, damaged ones included', () => {
    assert.deepEqual(['latest', 'latest~0', 'latest~1', 'latest~4'].map(picked), ['cp-30', 'cp-30', 'cp-21', 'cp-1'])
  })

  it('matches the newest checkpoint with a label', () => {
    assert.equal(picked('green'), 'cp-20')
  })

  it('matches a unique prefix, and lists the candidates of an ambiguous one', () => {
    assert.equal(picked('cp-3'), 'cp-30')
    const { exitCode, message, details } = errorFor('cp-2')
    assert.equal(exitCode, 2)
    assert.match(message, /Several checkpoints of s begin with "cp-2"/)
    assert.deepEqual(details, ['cp-21', 'cp-20'])
  })

  it('without a match is refused with suggestions', () => {
    assert.match(errorFor('gren').message, /no checkpoint "gren"\. Did you mean green/)
    assert.match(errorFor('latest~5').message, /only 5 checkpoints/)
    for (const ref of ['', 'latest~', 'latest~-1', 'LATEST~99999999999999999999'])
      assert.equal(errorFor(ref).exitCode, 2)
  })

  it('has the session before the first slash', () => {
    assert.deepEqual(split('s/a/b'), { session: 's', ref: 'a/b' })
    assert.deepEqual(split('s'), { session: 's', ref: undefined })
  })
})

describe('a session reference', () => {
  let store

  before(async () => {
    store = await openStore('memory:')
    for (const id of ['nightly', 'nightly-2', 'weekly']) await store.saveSession(makeSession(id))
    await checkpointOf(store, makeSession('unsaved'))
  })

  it('matches an id or a unique prefix, saved or not', async () => {
    assert.equal(await sessionId(store, 'nightly'), 'nightly')
    assert.equal(await sessionId(store, 'w'), 'weekly')
    assert.equal(await sessionId(store, 'uns'), 'unsaved')
  })

  it('is refused if it matches several sessions or none', async () => {
    await assert.rejects(sessionId(store, 'nigh'), { exitCode: 2, details: ['nightly', 'nightly-2'] })
    await assert.rejects(sessionId(store, 'weakly'), /Did you mean weekly\? waymark ls .*lists the sessions/)
    await assert.rejects(sessionId(store, ''), { exitCode: 2 })
    await assert.rejects(sessionId(store, './weekly'), /The session comes first, the location last/)
    await assert.rejects(
      sessionId(store, 'weekly/latest'),
      /is a checkpoint, but a session is expected here: write weekly/,
    )
  })

  it('may be omitted if another argument gives the session', async () => {
    const { checkpointId } = await checkpoint(store, 'unsaved/latest')
    assert.equal((await checkpoint(store, 'latest', { session: 'unsaved' })).checkpointId, checkpointId)
    await assert.rejects(checkpoint(store, 'unsaved'), /names no checkpoint: write unsaved\/latest/)
  })
})

describe('a single argument', () => {
  it('is a location if it begins with a path or a scheme', () => {
    const locations = [
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
    for (const word of [...locations, 'postgresql://h/d', 'memory:', 'redis://h'])
      assert.equal(isLocation(word), true, word)
    for (const word of ['x', 'x/y', '.x', '~x', 'a:b', 'sqlite', 'x.db', '...'])
      assert.equal(isLocation(word), false, word)
  })
})
