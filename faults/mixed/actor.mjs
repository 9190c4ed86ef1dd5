// Proxies for stores in other processes.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

import { asError, succeeded, withSignal } from './calls.mjs'

const SERVER = fileURLToPath(new URL('server.mjs', import.meta.url))

/** The deadline of every call, whatever happened to other processes. */
export const CALL_LIMIT_MS = 45_000

/**
 * A store on a location, in a separate process or in this one. `call(method, ...args)` rejects with the code of the store's error,
 * also for a result with `success: false`, and with the code `HANG` at the deadline.
 */
export async function startActor(storage, { options, isLocal = !storage.isShared, env = {} } = {}) {
  return isLocal ? localActor(storage, options) : remoteActor(storage, options, env)
}

async function localActor(storage, options) {
  const store = await storage.open(options)
  return {
    store,
    call: (method, ...args) => answered(method, store[method](...args.map(withSignal))),
    agent: (agent, method, ...args) => answered(method, store.agent(...agent)[method](...args)),
    copyTo: (other, ...args) => answered('copyTo', store.copyTo(other.store, ...args.map(withSignal))),
    end: () => Promise.resolve(),
  }
}

async function remoteActor(storage, options, env) {
  const child = fork(SERVER, [storage.location], {
    env: { ...process.env, ...env },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const waiting = new Map()
  const ended = new Promise((resolve) => {
    child.once('exit', resolve)
  })
  let calls = 0
  const ready = new Promise((resolve, reject) => {
    child.on('message', (message) => {
      if (message.isReady) return resolve()
      const call = waiting.get(message.call)
      waiting.delete(message.call)
      return message.error ? call.reject(asError(message.error)) : call.resolve(message.value)
    })
    ended.then(() => {
      reject(new Error('The process ended before it was ready'))
      for (const call of waiting.values()) call.reject(asError({ message: 'The process ended', code: 'ENDED' }))
      waiting.clear()
    })
  })
  await ready
  const send = (message) =>
    new Promise((resolve, reject) => {
      calls += 1
      waiting.set(calls, { resolve, reject })
      child.send({ call: calls, store: 0, ...message })
    })
  await send({ method: 'open', options })
  return {
    pid: child.pid,
    storage,
    options,
    call: (method, ...args) => answered(method, send({ method, args })),
    agent: (agent, method, ...args) => answered(method, send({ method, args, agent })),
    copyTo: (other, ...args) =>
      answered('copyTo', send({ method: 'copyTo', to: other.storage.location, options: other.options, args })),
    kill: (signal) => child.kill(signal),
    /** Ends the process without closing the store. */
    end: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        if (process.platform !== 'win32') child.kill('SIGCONT')
      }
      await ended
    },
  }
}

/** The value of a successful call. A call without an answer at the deadline rejects. */
async function answered(method, promise) {
  let timer
  const late = new Promise((_, reject) => {
    const hang = () => reject(asError({ message: `${method} had no answer after ${CALL_LIMIT_MS} ms`, code: 'HANG' }))
    timer = setTimeout(hang, CALL_LIMIT_MS)
  })
  try {
    return succeeded(await Promise.race([promise, late]))
  } finally {
    clearTimeout(timer)
  }
}
