// Long work: shows how far it is, and stops in order when somebody presses Ctrl-C.

'use strict'

const { progressOn } = require('./terminal/progress.js')

const SIGNALS = ['SIGINT', 'SIGTERM']

/**
 * Performs something that takes `{ onProgress, signal }`, as the long methods of the store do. `whole` says what is left when it
 * is stopped. What is `isQuiet` says nothing where there is no terminal to redraw a bar on.
 */
async function watched(call, { title, whole, isQuiet = false }, perform) {
  const isSilent = !call.err.canRedraw && (isQuiet || call.options.json)
  const progress = isSilent ? undefined : progressOn(call.err, title)
  const controller = new AbortController()
  const stop = () => {
    // The terminal has written `^C` where the next line begins.
    progress?.clear()
    controller.abort()
  }
  for (const name of SIGNALS) process.on(name, stop)
  try {
    return await perform({ onProgress: (state) => progress?.show(state), signal: controller.signal })
  } catch (error) {
    // What failed for another reason at that moment is no order that was followed.
    if (!controller.signal.aborted || error.name !== 'AbortError') throw error
    throw Object.assign(new Error('stopped', { cause: error }), { code: 'ABORT_ERR', whole })
  } finally {
    for (const name of SIGNALS) process.off(name, stop)
    progress?.end()
  }
}

/** Does the same with several sessions, one after the other, and tells which one it is at. */
async function eachOf(ids, verb, onProgress, perform) {
  const results = []
  for (const [index, id] of ids.entries()) {
    const title = `${verb} ${id}${ids.length > 1 ? ` (${index + 1} of ${ids.length})` : ''}`
    results.push(await perform(id, (state) => onProgress({ ...state, title })))
  }
  return results
}

module.exports = { eachOf, watched }
