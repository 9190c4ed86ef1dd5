// Long work: shows how far it is, and stops in order when somebody presses Ctrl-C.

'use strict'

const { progressOn } = require('./terminal/progress.js')

const SIGNALS = ['SIGINT', 'SIGTERM']

/**
 * Performs something that takes `{ onProgress, signal }`, as the long methods of the store do. `whole` says what is left when it
 * is stopped. What is `isQuiet` says nothing where there is no terminal to redraw a bar on.
 */
async function watched(call, { title, whole, isQuiet = false }, perform) {
  const isSilent = !call.err.isTerminal && (isQuiet || call.options.json)
  const progress = isSilent ? undefined : progressOn(call.err, title)
  const controller = new AbortController()
  const stop = () => controller.abort()
  for (const name of SIGNALS) process.on(name, stop)
  try {
    return await perform({ onProgress: (state) => progress?.show(state), signal: controller.signal })
  } catch (error) {
    if (!controller.signal.aborted) throw error
    throw Object.assign(new Error('stopped', { cause: error }), { code: 'ABORT_ERR', whole })
  } finally {
    for (const name of SIGNALS) process.off(name, stop)
    progress?.end()
  }
}

module.exports = { watched }
