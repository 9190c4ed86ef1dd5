import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { CheckpointStore, backends, testedBackends } from '../support/stores.mjs'
import { runSequences } from './run.mjs'

/** Sequences on each backend in an ordinary run: half of them with seeds that `WAYMARK_SEED` may choose. */
const COUNT = 110
const FIXED_SEED = 1000
const CHOSEN_SEED = Number(process.env.WAYMARK_SEED ?? 500_000)

describe('random sequences of all public methods', () => {
  for (const backend of testedBackends) {
    for (const [kind, seed] of [
      ['fixed', FIXED_SEED],
      ['chosen', CHOSEN_SEED],
    ]) {
      const count = COUNT / 2
      it(`return what the model returns on ${backend}, ${kind} seeds ${seed} to ${seed + count - 1}`, async () => {
        await runSequences({ backends: [backend], count, seed, isComplete: kind === 'fixed' })
      })
    }
  }
})

/** A store whose methods are replaced; all else is the store's own. */
const replacing = (methods) => (store) =>
  new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(methods, name)) return (...args) => methods[name](target, ...args)
      const member = target[name]
      return typeof member === 'function' ? member.bind(target) : member
    },
  })

/** Stores with a defect, each with the most operations that it takes to show it. */
const DEFECTS = {
  'that forgets the labels that it is given': {
    most: 3,
    wrap: () =>
      replacing({
        labelCheckpoint: async (store, sessionId, checkpointId, label, options) => {
          const result = await store.labelCheckpoint(sessionId, checkpointId, label, options)
          if (result.success) await store.labelCheckpoint(sessionId, checkpointId, null)
          return result
        },
      }),
  },
  'that answers lists from a cache': {
    most: 6,
    wrap: () => {
      const seen = new Map()
      return replacing({
        listCheckpoints: async (store, sessionId, ...paging) => {
          const key = [sessionId, ...paging].join()
          if (!seen.has(key)) seen.set(key, await store.listCheckpoints(sessionId, ...paging))
          return seen.get(key)
        },
      })
    },
  },
  'whose pruning removes one checkpoint too many': {
    most: 6,
    wrap: () =>
      replacing({
        prune: async (store, ...args) => {
          const answer = await store.prune(...args)
          const [line] = answer.dryRun ? [] : answer.removed
          const [oldest] = line ? (await store.listCheckpointInfo(line.sessionId)).checkpoints.slice(1) : []
          if (oldest) await store.deleteCheckpoint(line.sessionId, oldest.id)
          return answer
        },
      }),
  },
  'that ignores ifParent': {
    most: 3,
    wrap: () =>
      replacing({
        createCheckpoint: (store, ...args) => {
          const { ifParent: _, ...options } = args.at(-1)
          return store.createCheckpoint(...args.slice(0, -1), options)
        },
      }),
  },
  'that restores the session without its task tree': {
    most: 3,
    wrap: () =>
      replacing({
        restoreCheckpoint: async (store, ...args) => {
          const result = await store.restoreCheckpoint(...args)
          if (result.success) await store.saveTaskTree(result.sessionId, {})
          return result
        },
      }),
  },
}

describe('the model', () => {
  for (const [kind, { wrap, most }] of Object.entries(DEFECTS)) {
    it(`detects a store ${kind} and shrinks the sequence`, async () => {
      const run = runSequences({
        backends: ['memory'],
        count: 40,
        seed: FIXED_SEED,
        setting: { backends, wrap: (store) => wrap()(store) },
      })
      const error = await run.then(
        () => assert.fail('the defect was not noticed'),
        (thrown) => thrown,
      )
      assert.ok(error.shortest, error.stack)
      const { operations } = error.shortest.sequence
      assert.ok(operations.length <= most, `${operations.length} operations:\n${error.message}`)
      assert.match(error.message, /--seed \d+/)
      assert.match(error.message, /await a\./)
    })
  }

  it('requires an operation for every public method', async () => {
    Object.defineProperty(CheckpointStore.prototype, 'newMethod', { value() {}, configurable: true })
    try {
      await assert.rejects(
        runSequences({ backends: ['memory'], count: 2, seed: FIXED_SEED, isComplete: true }),
        /CheckpointStore\.newMethod/,
      )
    } finally {
      delete CheckpointStore.prototype.newMethod
    }
  })
})
