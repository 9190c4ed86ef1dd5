// Deletes exactly the checkpoints of a confirmed plan, whatever was written during the confirmation.

'use strict'

/** The labels and pins of the sessions in a plan, for a later comparison. */
async function labelsAndPins(store, { removed }) {
  const marks = new Map()
  for (const sessionId of new Set(removed.map((entry) => entry.sessionId))) {
    const { checkpoints, damaged } = await store.listCheckpointInfo(sessionId)
    for (const { id, label, pinned } of [...checkpoints, ...damaged]) {
      marks.set(keyOf({ sessionId, checkpointId: id }), `${label ?? ''}\n${pinned ?? false}`)
    }
  }
  return marks
}

/**
 * Executes a plan of `prune()`; the result has the same shape. A checkpoint whose label or pin changed since the plan is kept.
 * `before` are the labels and pins at the time of the plan.
 */
async function removePlanned(store, plan, before, { onProgress, signal }) {
  const result = { dryRun: false, removed: [], kept: plan.kept, freedBytes: 0, failed: [] }
  const now = await labelsAndPins(store, plan)
  for (const [done, entry] of plan.removed.entries()) {
    signal.throwIfAborted()
    const { sessionId, agentId, checkpointId, sizeBytes } = entry
    const key = keyOf(entry)
    onProgress({ phase: 'prune', done, total: plan.removed.length, bytes: result.freedBytes })
    if (agentId === undefined && now.get(key) !== before.get(key)) {
      if (now.has(key)) result.kept += 1
      continue
    }
    const series = agentId === undefined ? undefined : store.agent(sessionId, agentId)
    const { success, error, code } = await (series
      ? series.delete(checkpointId)
      : store.deleteCheckpoint(sessionId, checkpointId))
    if (success) {
      result.removed.push(entry)
      result.freedBytes += sizeBytes
    } else {
      result.kept += 1
      result.failed.push({ sessionId, ...(series && { agentId }), checkpointId, error, code })
    }
  }
  return result
}

function keyOf({ sessionId, checkpointId }) {
  return `${sessionId}/${checkpointId}`
}

module.exports = { labelsAndPins, removePlanned }
