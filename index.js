// The package as users see it: the addon, and what belongs to the JavaScript thread because it calls back.

'use strict'

const { AgentCheckpoints, CheckpointIterator, CheckpointStore, __napiBindingTarget } = require('./binding.js')
const { AutoCheckpoint } = require('./lib/auto-checkpoint.js')
const { control } = require('./lib/controlled.js')
const { isObject } = require('./lib/errors.js')
const { SessionLease, leaseMethods } = require('./lib/lease.js')
const { CheckpointPolicy } = require('./lib/policy.js')

const methods = {
  autoCheckpoint(options) {
    return new AutoCheckpoint(this, options)
  },
  ...leaseMethods,
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

// A literal: `import { … }` finds names in CommonJS only if they are spelt out.
module.exports = {
  AgentCheckpoints,
  AutoCheckpoint,
  CheckpointIterator,
  CheckpointPolicy,
  CheckpointStore,
  SessionLease,
  __napiBindingTarget,
}
