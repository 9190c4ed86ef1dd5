// Long tasks: shows progress, and cancels on Ctrl-C.

'use strict'

const { CliError, INTERRUPTED } = require('../../cli-error.js')
const { progressOn } = require('../../terminal/progress.js')

const SIGNALS = ['SIGINT', 'SIGTERM']

/**
 * Runs `task`, which takes `{ onProgress, signal }` as the long methods of the store do. `afterCancel` says what state a cancelled
 * task leaves. An `isQuiet` task shows progress only on a terminal that can redraw.
 */
async function runTask(context, { title, afterCancel, isQuiet = false }, task) {
  const isSilent = !context.err.canRedraw && (isQuiet || context.options.json)
  const progress = isSilent ? undefined : progressOn(context.err, title)
  const controller = new AbortController()
  const cancel = () => {
    // The terminal has echoed `^C` at the cursor; clear that line.
    progress?.clear()
    controller.abort()
  }
  for (const name of SIGNALS) process.on(name, cancel)
  try {
    return await task({ onProgress: (state) => progress?.show(state), signal: controller.signal })
  } catch (error) {
    // A failure for another reason is reported as such, even after Ctrl-C.
    if (!controller.signal.aborted || !isAbort(error)) throw error
    throw new CliError(`Stopped; everything is whole: ${afterCancel}`, INTERRUPTED)
  } finally {
    for (const name of SIGNALS) process.off(name, cancel)
    progress?.end()
  }
}

/** The store rejects with `ABORT_ERR`; `throwIfAborted()` throws a `DOMException` that has only a name. */
function isAbort({ code, name }) {
  return code === 'ABORT_ERR' || name === 'AbortError'
}

/** Runs a task for several sessions in turn, and names the current one in the progress. */
async function forEachSession(ids, verb, onProgress, task) {
  const results = []
  for (const [index, id] of ids.entries()) {
    const title = `${verb} ${id}${ids.length > 1 ? ` (${index + 1} of ${ids.length})` : ''}`
    results.push(await task(id, (state) => onProgress({ ...state, title })))
  }
  return results
}

module.exports = { forEachSession, runTask }
