// Timers that do not keep the process alive.

'use strict'

/** `setInterval`, for work that nobody waits for. */
function startTimer(tick, everyMs) {
  const timer = setInterval(tick, everyMs)
  if (typeof timer === 'object') timer.unref?.()
  else globalThis.Deno?.unrefTimer?.(timer)
  return timer
}

module.exports = { startTimer }
