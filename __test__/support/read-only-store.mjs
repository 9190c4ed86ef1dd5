// A lived-in store for a suite whose commands only read or are refused.

import assert from 'node:assert/strict'
import { after, before } from 'node:test'

import { contentsOf, livedInStore } from './lived-in.mjs'

/** Creates the store before the tests of a suite, hands it to `use`, and checks after them that nothing was changed. */
export function readOnlyStore(use) {
  let location
  let contents

  before(async () => {
    const store = await livedInStore()
    ;({ location } = store)
    contents = contentsOf(location)
    use(store)
  })

  after(() => assert.deepEqual(contentsOf(location), contents, 'nothing was changed'))
}
