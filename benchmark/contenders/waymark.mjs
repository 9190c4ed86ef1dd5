// Waymark, with full durability by default.

import { CheckpointStore } from '../../index.js'

export async function openWaymark(directory, { keep, durability = 'full', encoding = 'json', maxConnections }) {
  const store = new CheckpointStore(directory, {
    maxCheckpointsPerSession: keep,
    durability,
    encoding,
    ...(maxConnections && { maxConnections }),
  })
  await store.initialize()
  const newest = new Map()

  return {
    store,
    /** Starts immediately; the part before the first await blocks the event loop. */
    save(sessionId, { session, agentStates, contextStore }, { compress = false } = {}) {
      const named = session.id === sessionId ? session : { ...session, id: sessionId }
      const options = { trigger: 'auto', includeContext: true, compress }
      return store.createCheckpoint(named, agentStates, contextStore, options).then((made) => {
        if (!made.success) throw new Error(made.error)
        newest.set(sessionId, made.checkpointId)
        return made
      })
    },
    async saveAgent(sessionId, state) {
      const made = await store.agent(sessionId, 'agent').save(state)
      if (!made.success) throw new Error(made.error)
    },
    latest: (sessionId) => store.getLatestCheckpoint(sessionId),
    async restore(sessionId) {
      const restored = await store.restoreCheckpoint(sessionId, newest.get(sessionId), { validateChecksum: true })
      if (!restored.success) throw new Error(restored.error)
    },
    list: (sessionId) => store.listCheckpoints(sessionId),
    listInfo: (sessionId, options) => store.listCheckpointInfo(sessionId, options),
    close: () => store.close(),
  }
}
