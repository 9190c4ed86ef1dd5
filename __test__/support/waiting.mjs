// Waiting for conditions, never for a fixed time.

import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'

/** Far beyond any normal duration, so that a failing test does not hang. */
const TIMEOUT_MS = 60_000

/** Resolves when a condition holds. */
export async function until(holds) {
  const deadline = Date.now() + TIMEOUT_MS
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`It never came true: ${holds}`)
    await sleep(1)
  }
}

/** Calls `look` repeatedly until the work is done; resolves to the number of calls. */
export async function pollDuring(work, look) {
  const state = { isOver: false }
  const ended = work.finally(() => {
    state.isOver = true
  })
  ended.catch(() => {})
  let times = 0
  while (!state.isOver) {
    await look()
    times += 1
    await turn()
  }
  await ended
  return times
}

/** A promise that is resolved from outside. */
export function deferred() {
  let open
  const opened = new Promise((resolve) => {
    open = resolve
  })
  return { open, opened }
}

/** Replaces `setInterval` for one test by a timer that the test ticks. */
export function manualTimer(t) {
  const timer = { everyMs: undefined, isReferenced: true, isCleared: false, tick: undefined }
  const handle = {
    unref() {
      timer.isReferenced = false
    },
  }
  t.mock.method(globalThis, 'setInterval', (callback, everyMs) => {
    timer.everyMs = everyMs
    timer.tick = callback
    return handle
  })
  t.mock.method(globalThis, 'clearInterval', (cleared) => {
    timer.isCleared ||= cleared === handle
  })
  return timer
}
