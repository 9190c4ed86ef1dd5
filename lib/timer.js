// Timers that do not keep the process alive.

'use strict'

/** `setInterval`, unreferenced. */
function startInterval(callback, everyMs) {
  return unreferenced(setInterval(callback, everyMs))
}

/** `setTimeout`, unreferenced. */
function startTimeout(callback, afterMs) {
  return unreferenced(setTimeout(callback, afterMs))
}

function unreferenced(timer) {
  if (typeof timer === 'object') timer.unref?.()
  else globalThis.Deno?.unrefTimer?.(timer)
  return timer
}

module.exports = { startInterval, startTimeout }
