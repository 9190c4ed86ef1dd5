// The package as users see it: the addon, and what belongs to the JavaScript thread because it calls back. What few need is
// loaded when it is needed: a command that only looks has started by then.

'use strict'

const { AgentCheckpoints, CheckpointIterator, CheckpointStore, __napiBindingTarget } = require('./binding.js')
const { control } = require('./lib/controlled.js')
const { isObject } = require('./lib/errors.js')

const later = {
  AutoCheckpoint: () => require('./lib/auto-checkpoint.js').AutoCheckpoint,
  CheckpointPolicy: () => require('./lib/policy.js').CheckpointPolicy,
  SessionLease: () => require('./lib/lease.js').SessionLease,
}

const methods = {
  autoCheckpoint(options) {
    const AutoCheckpoint = later.AutoCheckpoint()
    return new AutoCheckpoint(this, options)
  },
  acquireSession(sessionId, options) {
    return require('./lib/lease.js').acquireSession(this, sessionId, options)
  },
  acquireNext(options) {
    return require('./lib/lease.js').acquireNext(this, options)
  },
}

for (const [name, value] of Object.entries(methods)) {
  // Configurable: test runners evaluate this file again for a class that is already loaded.
  Object.defineProperty(CheckpointStore.prototype, name, {
    value,
    configurable: true,
    enumerable: false,
    writable: true,
  })
}

control(CheckpointStore.prototype, 'exportSession', 2)
control(CheckpointStore.prototype, 'importSession', 1)
control(CheckpointStore.prototype, 'convert', 2)
control(CheckpointStore.prototype, 'copyTo', 1)
control(CheckpointStore.prototype, 'verifySession', 1)
// `prune({ … })` leaves out the session.
control(CheckpointStore.prototype, 'prune', 1, ([first, second]) => second ?? (isObject(first) ? first : undefined))

module.exports = {
  AgentCheckpoints,
  // `import { … }` finds names in CommonJS only if they are spelt out.
  AutoCheckpoint: undefined,
  CheckpointIterator,
  CheckpointPolicy: undefined,
  CheckpointStore,
  SessionLease: undefined,
  __napiBindingTarget,
}

for (const [name, get] of Object.entries(later)) {
  Object.defineProperty(module.exports, name, { get, enumerable: true })
}
