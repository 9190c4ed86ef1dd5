import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import vm from 'node:vm'

import * as imported from '../../index.js'
import { makeSession } from '../support/sessions.mjs'
import { checkpointOf, openStore } from '../support/stores.mjs'

describe('the module', () => {
  it('is the same through import and require', () => {
    const required = createRequire(import.meta.url)('../../index.js')
    assert.equal(imported.default, required)
    for (const name of ['AutoCheckpoint', 'CheckpointIterator', 'CheckpointPolicy', 'CheckpointStore']) {
      assert.equal(typeof imported[name], 'function', name)
      assert.equal(imported[name], required[name], name)
    }
    const { 'module.exports': _, default: __, ...named } = imported
    assert.deepEqual(Object.keys(named).toSorted(), Object.keys(required).toSorted())
    assert.equal(imported.CheckpointStore.name, 'CheckpointStore')
  })

  it('exports a class that can be extended', async () => {
    class Mine extends imported.CheckpointStore {
      constructor() {
        super('memory:', 1)
      }
      async saveBoth(session) {
        return [await this.saveSession(session), await this.saveTaskTree(session.id, session.taskTree)]
      }
    }
    const store = new Mine()
    assert.ok(store instanceof imported.CheckpointStore)
    await store.initialize()
    for (const result of await store.saveBoth(makeSession('s'))) assert.equal(result.success, true)
  })

  it('accepts Maps and objects of another realm, as test runners create them', async () => {
    const store = await openStore('memory:')
    const session = makeSession('s')
    session.taskTree = vm.runInNewContext('new Map([["a", { status: "failed" }], ["b", {}]])')
    const agents = vm.runInNewContext('new (class Fleet extends Map {})([["x", {}]])')
    await checkpointOf(store, session, { trigger: 'auto' }, agents, vm.runInNewContext('({})'))
    const stored = await store.getLatestCheckpoint('s')
    assert.deepEqual(stored.taskTree, { a: { status: 'failed' }, b: {} })
    assert.deepEqual(stored.agentStates, { x: {} })
  })

  it('survives garbage collection while calls are pending', async () => {
    const { setFlagsFromString } = await import('node:v8')
    setFlagsFromString('--expose-gc')
    const collect = vm.runInNewContext('gc')
    const calls = Array.from({ length: 20 }, async () => {
      const call = (await openStore('memory:')).createCheckpoint(makeSession('s'), { trigger: 'auto' })
      collect()
      return call
    })
    for (const result of await Promise.all(calls)) assert.equal(result.success, true)
  })
})
