// Stores that own sessions, and the lock of a lease held from outside.

import { spawn, spawnSync } from 'node:child_process'
import { after } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { snapshotOf } from './snapshot.mjs'
import { openStore, backends } from './stores.mjs'

export const LONG = { ttlMs: 60_000 }

/** Why a lock cannot be held by another program, for `skip`; `false` where it can. */
export const NO_FLOCK =
  spawnSync('flock', ['--version']).error !== undefined && 'there is no `flock` to hold a lock like a stopped process'

/** The lock under which the lease of session `s` is changed. */
export const LOCK_OF_S = '.lock-51'

/** Two stores on one directory; the first holds the lease of session `s`. */
export async function ownerAndOther(options) {
  const location = backends.files()
  const [owner, other] = [await openStore(location, options), await openStore(location, options)]
  const lease = await owner.acquireSession('s', LONG)
  return { location, owner, other, lease }
}

const HOLD = `console.log('held'); process.stdin.on('end', () => process.exit()).resume()`

const holders = new Set()
after(() => {
  for (const child of holders) child.kill('SIGKILL')
})

/** Holds the lock of a file, as a process that was stopped inside a critical section does; the answer releases it. */
export async function hold(file) {
  const child = spawn('flock', ['--exclusive', '--no-fork', file, process.execPath, '--eval', HOLD], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  holders.add(child)
  await new Promise((resolve) => {
    child.stdout.once('data', resolve)
  })
  return () => {
    const ended = new Promise((resolve) => {
      child.once('close', resolve)
    })
    child.kill('SIGKILL')
    return ended
  }
}

/** Whether a call is still pending after some time. */
export async function isPending(work, ms = 300) {
  const waits = Symbol('waits')
  return (await Promise.race([work, sleep(ms, waits)])) === waits
}

/** Blocks the event loop: no timer fires. */
export function blockEventLoop(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** What a store on files holds, without its lease records. */
export function contents(location) {
  const { '.leases/': _, ...sessions } = snapshotOf(location)
  return sessions
}
