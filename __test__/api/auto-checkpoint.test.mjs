import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { AutoCheckpoint, CheckpointPolicy } from '../../index.js'
import { autoOf, state, total } from '../support/auto-checkpoint.mjs'
import { runNode } from '../support/processes.mjs'
import { makeAgent, makeSession } from '../support/sessions.mjs'
import { CheckpointStore, onEveryBackend, openStore, scratchDirectory } from '../support/stores.mjs'
import { deferred, manualTimer, until } from '../support/waiting.mjs'

onEveryBackend('autoCheckpoint', (open) => {
  it('stores the captured state with its own trigger and the context', async () => {
    const store = await open()
    const captured = { ...state(), agentStates: new Map([['a', makeAgent('a')]]), contextStore: { plan: ['lexer'] } }
    const { auto } = autoOf(store, { capture: () => captured })
    const result = await auto.now()
    assert.equal(result.success, true)
    const stored = await store.getCheckpoint('s', result.checkpointId)
    assert.deepEqual(stored.taskTree, captured.session.taskTree)
    assert.deepEqual(stored.agentStates, { a: makeAgent('a') })
    assert.deepEqual(stored.contextStore, { plan: ['lexer'] })
    assert.equal(stored.trigger, 'auto')
    await auto.stop()
  })

  it('takes options for all checkpoints and for a single one', async () => {
    const store = await open()
    const { auto } = autoOf(store, {
      options: { includeContext: false, label: 'all', description: 'from the loop' },
      capture: () => ({ ...state(), contextStore: { plan: [] } }),
    })
    const { checkpointId } = await auto.now({ trigger: 'milestone', label: 'one', compress: true })
    const stored = await store.getCheckpoint('s', checkpointId)
    assert.deepEqual([stored.trigger, stored.label, stored.description], ['milestone', 'one', 'from the loop'])
    assert.deepEqual(stored.contextStore, {})
    const last = await store.getCheckpoint('s', (await auto.stop()).checkpointId)
    assert.deepEqual([last.trigger, last.label], ['auto', 'all'])
    const [newest, older] = (await store.listCheckpointInfo('s')).checkpoints
    assert.deepEqual([newest.encoding, older.encoding], ['json', 'gzip'])
  })

  it('stores the state at the moment of the call if capture is synchronous', async () => {
    const store = await open()
    const session = makeSession('s', { name: 'before' })
    const { auto } = autoOf(store, { capture: () => ({ session }) })
    const called = auto.now()
    session.name = 'after'
    const { checkpointId } = await called
    assert.equal((await store.getCheckpoint('s', checkpointId)).session.name, 'before')
    const stopped = auto.stop()
    session.name = 'after the end'
    assert.equal((await store.getCheckpoint('s', (await stopped).checkpointId)).session.name, 'after')
  })

  it('accepts a capture that returns a promise or any thenable', async () => {
    const store = await open()
    // oxlint-disable-next-line unicorn/no-thenable
    const captures = [async () => state(), () => ({ then: (resolve) => resolve(state()) })]
    for (const capture of captures) {
      const { auto, seen } = autoOf(store, { capture })
      assert.equal((await auto.now()).success, true)
      assert.equal((await auto.stop()).success, true)
      assert.deepEqual(seen.errors, [])
    }
  })

  it('takes a checkpoint on every tick of its timer', async () => {
    const store = await open()
    const { auto, seen } = autoOf(store, { policy: undefined, everyMs: 1 })
    await until(() => auto.taken >= 3)
    await auto.stop()
    assert.equal(await total(store), auto.taken)
    assert.equal(seen.captures, auto.taken)
    assert.deepEqual(seen.errors, [])
  })

  it('takes a checkpoint when the policy wants one', async () => {
    const store = await open()
    const { afterToolCall, anyOf, everyIterations, onError } = CheckpointPolicy
    const { auto, seen } = autoOf(store, { policy: anyOf(afterToolCall(), everyIterations(5), onError()) })
    assert.equal(await auto.notify('iteration'), undefined, 'the iteration is 0 at first')
    assert.equal(await auto.notify('iteration', 4), undefined)
    assert.equal((await auto.notify('iteration', 5)).success, true)
    assert.equal((await auto.notify('iteration')).success, true, 'the last iteration that was told')
    assert.equal(await auto.notify('model_response', 10), undefined)
    assert.equal((await auto.notify({ type: 'iteration' })).success, true, 'told while none was taken')
    assert.equal((await auto.notify('tool_call', 11)).success, true)
    assert.equal((await auto.notify('error')).success, true)
    assert.equal(seen.captures, 5)
    assert.equal(await total(store), 5)
    await auto.stop()
  })

  it('measures the time since the last successful checkpoint', async (t) => {
    const store = await open()
    let now = 1000
    t.mock.method(performance, 'now', () => now)
    let isBroken = false
    const { auto, seen } = autoOf(store, {
      policy: CheckpointPolicy.everyMs(100),
      capture: () => (isBroken ? undefined : state()),
    })
    assert.equal(await auto.notify({ type: 'timer', elapsedMs: 1e9 }), undefined, 'whatever the caller says')
    now += 99
    assert.equal(await auto.notify('timer'), undefined)
    now += 1
    assert.equal((await auto.notify('timer')).success, true)
    now += 99
    assert.equal(await auto.notify('timer'), undefined)
    isBroken = true
    now += 1
    assert.equal(await auto.notify('timer'), undefined)
    assert.equal(seen.errors.length, 1)
    isBroken = false
    assert.equal((await auto.notify('timer')).success, true, 'it is still due')
    await auto.stop()
  })

  it('never runs two at once: calls made meanwhile share one further checkpoint', async () => {
    const store = await open()
    const { open: release, opened } = deferred()
    let running = 0
    const { auto, seen } = autoOf(store, {
      policy: CheckpointPolicy.afterToolCall(),
      capture: async () => {
        running += 1
        assert.equal(running, 1)
        await opened
        running -= 1
        return state()
      },
    })
    const first = auto.now()
    const others = [auto.now({ label: 'a' }), auto.notify('tool_call'), auto.now({ description: 'd' }), auto.now()]
    assert.equal(seen.captures, 1)
    release()
    const shared = await Promise.all(others)
    assert.notEqual((await first).checkpointId, shared[0].checkpointId)
    for (const result of shared) assert.equal(result, shared[0])
    assert.equal(seen.captures, 2)
    assert.equal(await total(store), 2)
    const stored = await store.getCheckpoint('s', shared[0].checkpointId)
    assert.deepEqual([stored.label, stored.description], ['a', 'd'], 'with all that they asked for')
    await auto.stop()
  })

  it('never runs two at once, whenever the next call is made', async () => {
    const store = await open()
    const createCheckpoint = store.createCheckpoint.bind(store)
    const wishes = []
    const wishInEachOfTheNextSteps = async () => {
      for (let step = 0; step < 20; step += 1) {
        await undefined
        wishes.push(auto.now())
      }
    }
    let running = 0
    let most = 0
    store.createCheckpoint = async (...args) => {
      running += 1
      most = Math.max(most, running)
      const result = await createCheckpoint(...args)
      running -= 1
      if (wishes.length < 100) void wishInEachOfTheNextSteps()
      return result
    }
    const { auto } = autoOf(store)
    await Promise.all([auto.now(), auto.now()])
    await until(() => wishes.length >= 100)
    await auto.stop()
    await Promise.all(wishes)
    assert.equal(most, 1)
  })

  it('can be called by the capture itself', async () => {
    const store = await open()
    let inner
    const { auto, seen } = autoOf(store, {
      capture: (nth) => {
        if (nth === 1) {
          inner = auto.now()
          seen.capturesMeanwhile = seen.captures
        }
        return state()
      },
    })
    const outer = await auto.now()
    assert.notEqual((await inner).checkpointId, outer.checkpointId)
    assert.deepEqual([seen.capturesMeanwhile, seen.captures], [1, 2])
    await auto.stop()
  })

  it('reports its number of checkpoints and the last result', async () => {
    const store = await open()
    const { auto } = autoOf(store, { capture: (nth) => (nth === 2 ? undefined : state()) })
    assert.deepEqual([auto.taken, auto.last, auto.isStopped], [0, undefined, false])
    const first = await auto.now()
    assert.deepEqual([auto.taken, auto.last], [1, first])
    await auto.now()
    assert.deepEqual([auto.taken, auto.last], [1, first], 'a failure does not count')
    const last = await auto.stop()
    assert.deepEqual([auto.taken, auto.last, auto.isStopped], [2, last, true])
    assert.throws(() => {
      auto.taken = 5
    }, TypeError)
  })

  it('works on a subclass of the store', async () => {
    const plain = await open()
    class Mine extends CheckpointStore {}
    const store = new Mine(plain.getBaseDir())
    await store.initialize()
    const { auto } = autoOf(store)
    assert.ok(auto instanceof AutoCheckpoint)
    assert.equal((await auto.stop()).success, true)
  })
})

onEveryBackend('autoCheckpoint.stop', (open) => {
  it('ends the timer, waits for the pending checkpoint and takes a last one', async (t) => {
    const store = await open()
    const timer = manualTimer(t)
    const { open: release, opened } = deferred()
    const session = makeSession('s', { name: 'first' })
    const { auto, seen } = autoOf(store, {
      everyMs: 50,
      capture: async () => {
        if (seen.captures === 1) await opened
        return { session: { ...session } }
      },
    })
    assert.deepEqual([timer.everyMs, timer.isReferenced, timer.isCleared], [50, false, false])
    timer.tick()
    timer.tick()
    const stopped = auto.stop()
    assert.equal(auto.stop(), stopped, 'a second stop is the same')
    assert.equal(timer.isCleared, true)
    assert.equal(seen.captures, 1)
    session.name = 'last'
    release()
    const last = await stopped
    assert.equal((await store.getCheckpoint('s', last.checkpointId)).session.name, 'last')
    assert.equal(seen.captures, 2, 'the second tick shares the last one')
    assert.equal(await total(store), 2)
    assert.equal(auto.stop(), stopped)
  })

  it('rejects every later call', async () => {
    const store = await open()
    const { auto, seen } = autoOf(store, {
      policy: CheckpointPolicy.afterToolCall(),
      capture: () => {
        if (auto.isStopped) late = auto.now()
        late?.catch(() => {})
        return state()
      },
    })
    let late
    const closed = { name: 'Error', code: 'WAYMARK_CLOSED', message: /stopped/ }
    const stopped = auto.stop()
    await assert.rejects(auto.now(), closed)
    await assert.rejects(auto.notify('tool_call', 1), closed)
    await assert.rejects(late, closed)
    await stopped
    await assert.rejects(auto.now(), closed)
    await assert.rejects(auto.notify('iteration', 1), closed)
    assert.deepEqual([seen.captures, await total(store), seen.errors], [1, 1, []])
  })

  it('takes its last checkpoint before a close() that is called right after it', async () => {
    const store = await open()
    const { auto, seen } = autoOf(store)
    const [last] = await Promise.all([auto.stop(), store.close()])
    assert.equal(last.success, true)
    assert.deepEqual(seen.errors, [])
  })

  it('passes a failure of the last checkpoint to onError and resolves to undefined', async () => {
    const store = await open()
    const { auto, seen } = autoOf(store)
    await store.close()
    assert.equal(await auto.stop(), undefined)
    assert.deepEqual(
      seen.errors.map((error) => error.code),
      ['WAYMARK_CLOSED'],
    )
  })

  it('runs at the end of an await using block', async () => {
    const store = await open()
    const { auto } = autoOf(store)
    assert.equal(await auto[Symbol.asyncDispose](), undefined)
    assert.deepEqual([auto.isStopped, auto.taken, await total(store)], [true, 1, 1])
  })
})

describe('the process of an autoCheckpoint', () => {
  const capture = `() => ({ session: ${JSON.stringify(makeSession('s'))} })`

  it('is not kept alive by the timer', async () => {
    const { code, signal, stdout } = await runNode(`
      const store = new CheckpointStore('memory:')
      await store.initialize()
      const auto = store.autoCheckpoint({ sessionId: 's', everyMs: 1e9, capture: ${capture} })
      await auto.now()
      console.log(auto.taken)
    `)
    assert.deepEqual({ code, signal, stdout }, { code: 0, signal: null, stdout: '1\n' })
  })

  it('gets a warning for a failure on the timer and does not end', async () => {
    const { code, stdout, stderr } = await runNode(`
      const store = new CheckpointStore('memory:')
      const warned = new Promise((resolve) => process.once('warning', resolve))
      const isAwake = setInterval(() => {}, 1e9)
      store.autoCheckpoint({ sessionId: 's', everyMs: 1, capture: ${capture} })
      console.log((await warned).code)
      clearInterval(isAwake)
    `)
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'WAYMARK_NOT_INITIALIZED\n' })
    assert.match(stderr, /WAYMARK_NOT_INITIALIZED/)
  })

  it('takes a last checkpoint where await using ends', { skip: reasonWithoutUsing() }, async () => {
    const base = scratchDirectory()
    const { code, stderr } = await runNode(`
      await using store = new CheckpointStore(${JSON.stringify(base)})
      await store.initialize()
      await using auto = store.autoCheckpoint({ sessionId: 's', everyMs: 1e9, capture: ${capture} })
    `)
    assert.equal(code, 0, stderr)
    assert.equal(await total(await openStore(base)), 1)
  })
})

/** Why this runtime cannot parse `await using`, or `false` if it can. */
function reasonWithoutUsing() {
  const AsyncFunction = (async () => {}).constructor
  try {
    AsyncFunction('await using nothing = null')
    return false
  } catch {
    return `Node ${process.version} does not know \`await using\``
  }
}
