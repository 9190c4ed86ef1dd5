// The colour and the symbol of each status of sessions, tasks and agents.

'use strict'

const STYLES = {
  completed: 'green',
  failed: 'red',
  in_progress: 'yellow',
  verifying: 'yellow',
  rework: 'yellow',
  blocked: 'magenta',
  pending: undefined,
  queued: undefined,
  cancelled: 'dim',
  initializing: 'cyan',
  active: 'cyan',
  resuming: 'cyan',
  completing: 'cyan',
  paused: 'yellow',
  archived: 'dim',
  running: 'cyan',
  starting: 'cyan',
  recovering: 'yellow',
  idle: 'dim',
  stopped: 'dim',
}

const SYMBOLS = {
  completed: 'completed',
  failed: 'failed',
  in_progress: 'running',
  verifying: 'running',
  rework: 'running',
  blocked: 'blocked',
  cancelled: 'cancelled',
}

/** Statuses come from stored data and may be any value, such as `constructor`. */
function styleOf(status) {
  return Object.hasOwn(STYLES, String(status)) ? STYLES[status] : undefined
}

function symbolOf(status, { glyphs }) {
  return glyphs[Object.hasOwn(SYMBOLS, String(status)) ? SYMBOLS[status] : 'waiting']
}

module.exports = { symbolOf, styleOf }
