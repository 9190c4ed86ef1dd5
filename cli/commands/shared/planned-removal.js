// Removes checkpoints that were announced, and no others, whatever was written while the question stood.

'use strict'

/** The labels and pins of the checkpoints of a plan, to be compared later. */
async function marksOf(store, { removed }) {
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
 * Carries a plan of `prune()` out, and gives the same kind of result. What was marked when the plan was made and is marked
 * otherwise now stays: somebody wants it.
 */
async function removeAnnounced(store, plan, before, { onProgress, signal }) {
  const result = { dryRun: false, removed: [], kept: plan.kept, freedBytes: 0, failed: [] }
  const now = await marksOf(store, plan)
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

module.exports = { marksOf, removeAnnounced }
