// The public API: the classes of the addon, and the parts in JavaScript, which call back into user code. Those parts are
// loaded on demand, so that the command starts faster.

'use strict'

const { AgentCheckpoints, CheckpointIterator, CheckpointStore, __napiBindingTarget } = require('./binding.js')
const { isObject } = require('./lib/errors.js')
const { addProgress } = require('./lib/progress.js')

const lazyClasses = {
  AutoCheckpoint: () => require('./lib/auto-checkpoint.js').AutoCheckpoint,
  CheckpointPolicy: () => require('./lib/policy.js').CheckpointPolicy,
  SessionLease: () => require('./lib/lease.js').SessionLease,
}

const methods = {
  autoCheckpoint(options) {
    const AutoCheckpoint = lazyClasses.AutoCheckpoint()
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

addProgress(CheckpointStore.prototype, 'exportSession', 2)
addProgress(CheckpointStore.prototype, 'importSession', 1)
addProgress(CheckpointStore.prototype, 'convert', 2)
addProgress(CheckpointStore.prototype, 'copyTo', 1)
addProgress(CheckpointStore.prototype, 'verifySession', 1)
// `prune({ … })` has no session argument.
addProgress(CheckpointStore.prototype, 'prune', 1, ([first, second]) => second ?? (isObject(first) ? first : undefined))

module.exports = {
  AgentCheckpoints,
  // Named imports of a CommonJS module need literal property names.
  AutoCheckpoint: undefined,
  CheckpointIterator,
  CheckpointPolicy: undefined,
  CheckpointStore,
  SessionLease: undefined,
  __napiBindingTarget,
}

for (const [name, get] of Object.entries(lazyClasses)) {
  Object.defineProperty(module.exports, name, { get, enumerable: true })
}
