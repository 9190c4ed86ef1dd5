// Invalid argument values, and a store that shows that nothing was written.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { openStore, scratchDirectory } from './stores.mjs'

/** Values that are not strings, and how messages name them. */
export const NOT_STRINGS = [
  [undefined, 'undefined'],
  [null, 'null'],
  [42, '42'],
  [true, 'true'],
  [{}, 'an object'],
  [[], 'an array'],
  [() => {}, 'a function'],
  [Symbol('s'), 'a symbol'],
  [10n, 'a BigInt'],
  [new Map(), 'a Map'],
]

/** Ids that cannot be file names on every system. */
export const INVALID_IDS = [
  '',
  '.',
  '..',
  '../escaped',
  'a/b',
  'a\\b',
  '/abs',
  'C:\\x',
  'nul\0byte',
  'line\nbreak',
  '\u0007',
  '.hidden',
  'dot.',
  ' lead',
  'trail ',
  'CON',
  'nul',
  'com1.txt',
  '\ud800',
  'a\udc00b',
  'x'.repeat(201),
  'é'.repeat(101),
]

const circular = {}
circular.self = circular

/** Values that JSON cannot hold. */
export const UNSTORABLE = {
  'a cycle': circular,
  'a BigInt': { n: 1n },
  'a getter that throws': {
    get trap() {
      throw new RangeError('no entry')
    },
  },
  'a toJSON that throws a symbol': {
    toJSON() {
      throw Symbol('no text')
    },
  },
  'a toJSON that throws a string': {
    toJSON() {
      throw 'no error'
    },
  },
  'a proxy that refuses': new Proxy(
    {},
    {
      get() {
        throw new Error('refused')
      },
    },
  ),
  'a toJSON that throws': {
    toJSON() {
      throw new Error('not today')
    },
  },
}

/** A store on an empty directory, and a function that asserts that it is still empty. */
export async function emptyStore() {
  const base = join(scratchDirectory(), 'base')
  const store = await openStore(base)
  const isUntouched = () => {
    assert.deepEqual(readdirSync(base), [])
    assert.deepEqual(readdirSync(dirname(base)), ['base'])
  }
  return { store, isUntouched }
}
