// Automatic checkpoints of session `s`.

import { CheckpointPolicy } from '../../index.js'
import { makeSession } from './sessions.mjs'

export const NEVER = CheckpointPolicy.never()

export const state = () => ({ session: makeSession('s') })

export const total = async (store) => (await store.listCheckpointInfo('s')).total

/** An AutoCheckpoint that counts its captures in `seen.captures` and collects the errors of onError in `seen.errors`. */
export function autoOf(store, options = {}) {
  const seen = { captures: 0, errors: [] }
  const { capture = () => state(), ...others } = options
  const counting = () => {
    seen.captures += 1
    return capture(seen.captures)
  }
  const onError = (error) => seen.errors.push(error)
  const auto = store.autoCheckpoint({ sessionId: 's', policy: NEVER, onError, ...others, capture: counting })
  return { auto, seen }
}
