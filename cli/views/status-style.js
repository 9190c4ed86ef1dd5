// The colour and the sign of each status: of sessions, tasks and agents.

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

const SIGNS = {
  completed: 'completed',
  failed: 'failed',
  in_progress: 'running',
  verifying: 'running',
  rework: 'running',
  blocked: 'blocked',
  cancelled: 'cancelled',
}

/** Statuses come from stored data: one may be anything, such as `constructor`. */
function styleOf(status) {
  return Object.hasOwn(STYLES, String(status)) ? STYLES[status] : undefined
}

function signOf(status, { glyphs }) {
  return glyphs[Object.hasOwn(SIGNS, String(status)) ? SIGNS[status] : 'waiting']
}

module.exports = { signOf, styleOf }
