// A lived-in store for a suite whose commands only read or are refused.

import assert from 'node:assert/strict'
import { after, before } from 'node:test'

import { contentsOfStore, exampleStore } from './example-store.mjs'

/** Creates the store before the tests of a suite, hands it to `use`, and checks after them that nothing was changed. */
export function readOnlyStore(use) {
  let location
  let contents

  before(async () => {
    const store = await exampleStore()
    ;({ location } = store)
    contents = contentsOfStore(location)
    use(store)
  })

  after(() => assert.deepEqual(contentsOfStore(location), contents, 'nothing was changed'))
}
