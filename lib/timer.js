// Timers that do not keep the process alive.

'use strict'

/** `setInterval`, for work that nobody waits for. */
function startTimer(tick, everyMs) {
  return unreferenced(setInterval(tick, everyMs))
}

/** `setTimeout` likewise. */
function startTimeout(end, afterMs) {
  return unreferenced(setTimeout(end, afterMs))
}

function unreferenced(timer) {
  if (typeof timer === 'object') timer.unref?.()
  else globalThis.Deno?.unrefTimer?.(timer)
  return timer
}

module.exports = { startTimeout, startTimer }
