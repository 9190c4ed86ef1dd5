// Serves stores to another process through the IPC channel: see actor.mjs.
//
//   node server.mjs <location>
//
// `{ call, store, method, args, agent }` is answered by `{ call, value }` or `{ call, error }`. `options` instead of a method opens
// the store of that number. An argument `{ $abortMs }` becomes `{ signal }` of a signal that aborts after so many milliseconds.

import { plainError, succeeded, withSignal } from './calls.mjs'
import { CheckpointStore } from './locations.mjs'

const [location] = process.argv.slice(2)
const stores = new Map()

async function perform({ store, options, method, args = [], agent, to }) {
  if (method === 'open') {
    const opened = new CheckpointStore(location, options)
    await opened.initialize()
    stores.set(store, opened)
    return undefined
  }
  if (method === 'copyTo') {
    const target = new CheckpointStore(to, options)
    await target.initialize()
    try {
      return await stores.get(store).copyTo(target, ...args.map(withSignal))
    } finally {
      await target.close()
    }
  }
  const target = agent ? stores.get(store).agent(...agent) : stores.get(store)
  return target[method](...args.map(withSignal))
}

process.on('message', (message) => {
  perform(message)
    // Errors lose their codes on the way.
    .then((value) => ({ value: succeeded(value) }))
    .catch((error) => ({ error: { ...plainError(error), cause: error.causeCode ?? plainError(error).cause } }))
    .then((answer) => process.connected && process.send({ call: message.call, ...answer }))
})
process.on('disconnect', () => process.exit())
process.send({ isReady: true })
