// A proxy in front of a server that injects faults.

import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import { until } from './waiting.mjs'

const DELAY_MS = 300

/**
 * Faults of a request, which is what a client sends at a time:
 *
 * - `cut before`: nothing of it arrives, and the connection ends.
 * - `cut inside`: half of it arrives.
 * - `cut after`: all of it arrives, and the connection ends when the server begins to answer.
 * - `swallow`: the same, but the connection stays, and nothing more comes back.
 * - `hang`: nothing arrives on any connection until `heal`; then it does, even if the client is gone.
 *
 * And `delay` delays all requests and all answers.
 */
export const FAULTS = ['cut before', 'cut inside', 'cut after', 'swallow', 'hang']

/** Starts a proxy for the server of a URL. */
export async function startProxy(target) {
  const { hostname, port } = new URL(target)
  const links = new Set()
  const state = { fault: null, after: 0, left: 0, happened: 0, most: 0, roundTrips: 0 }
  const isHung = () => state.fault === 'hang' && state.happened > 0
  const delay = () => (state.fault === 'delay' && state.after < 0 ? sleep(DELAY_MS) : undefined)

  /** The fault for the next request, if any. */
  function met() {
    state.after -= 1
    if (state.fault === null || state.after >= 0 || state.left === 0) return null
    state.left -= 1
    state.happened += 1
    return state.fault
  }

  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ host: hostname, port: Number(port), noDelay: true })
    const link = {
      client,
      upstream,
      fault: null,
      requests: [],
      answers: [],
      isAbandoned: false,
      isAwaited: false,
      isAnswered: true,
    }
    links.add(link)
    state.most = Math.max(state.most, links.size)
    const end = () => {
      client.destroy()
      upstream.destroy()
      links.delete(link)
    }
    const [toServer, toClient] = [inTurn(delay), inTurn(delay)]
    client.on('data', (bytes) => {
      if (link.isAnswered) state.roundTrips += 1
      link.isAnswered = false
      const fault = met()
      if (isHung()) link.requests.push(bytes)
      else if (fault === 'cut before') end()
      else if (fault === 'cut inside') upstream.write(bytes.subarray(0, bytes.length >> 1), end)
      else {
        link.fault ??= fault
        toServer(() => upstream.write(bytes))
      }
    })
    upstream.on('data', (bytes) => {
      link.isAwaited = false
      link.isAnswered = true
      if (link.fault === 'cut after') end()
      else if (isHung()) link.answers.push(bytes)
      else if (link.fault !== 'swallow') toClient(() => client.write(bytes))
    })
    link.release = () => {
      link.isAwaited = link.requests.length > 0
      for (const bytes of link.requests.splice(0)) toServer(() => upstream.write(bytes))
      for (const bytes of link.answers.splice(0)) toClient(() => client.write(bytes))
      if (link.isAbandoned) toServer(() => upstream.end())
    }
    client.on('error', () => {})
    client.once('close', () => {
      link.isAbandoned = link.requests.length > 0
      if (!link.isAbandoned) end()
    })
    upstream.on('error', () => {})
    upstream.once('close', end)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(target)
  url.host = `127.0.0.1:${server.address().port}`

  return {
    /** The URL of the same location through this proxy. */
    url: url.href,
    /** After `after` more requests, `times` requests fail. */
    fail(fault, { after = 0, times = Infinity } = {}) {
      Object.assign(state, { fault, after, left: times, happened: 0 })
    },
    /** How many requests have failed. */
    get happened() {
      return state.happened
    },
    /** How often a client sent a request after an answer. */
    get roundTrips() {
      return state.roundTrips
    },
    /** The number of open connections. */
    get connections() {
      return links.size
    },
    /** The largest number of open connections. */
    get mostConnections() {
      return state.most
    },
    /** Ends the fault. Resolves when held requests are answered and abandoned connections closed. */
    async heal() {
      state.fault = null
      for (const link of links) link.release()
      await until(() => [...links].every(({ isAbandoned, isAwaited }) => !isAbandoned && !isAwaited))
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const { client, upstream } of links) {
        client.destroy()
        upstream.destroy()
      }
      await closed
    },
  }
}

/** Runs steps in sequence, each after a delay that is computed at its turn. */
function inTurn(delay) {
  let last = Promise.resolve()
  return (step) => {
    last = last.then(delay).then(step)
  }
}
