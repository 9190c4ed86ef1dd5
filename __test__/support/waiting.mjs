// Waiting for things to happen, never for time to pass.

import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'

/** Far beyond what anything takes: a test that fails should not hang. */
const PATIENCE_MS = 60_000

/** Resolves when a condition holds. */
export async function until(holds) {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`It never came true: ${holds}`)
    await sleep(1)
  }
}

/** Looks again and again while some work is under way; resolves to how often, when the work is done. */
export async function lookedDuring(work, look) {
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
export function gate() {
  let open
  const opened = new Promise((resolve) => {
    open = resolve
  })
  return { open, opened }
}

/** Replaces `setInterval` for one test by a timer that ticks when it is told to. */
export function handTimer(t) {
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
