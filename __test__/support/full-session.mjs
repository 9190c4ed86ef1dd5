// Sessions with one item of every kind, and everything readable of one.

import { makeAgent, makeSession, makeTask } from './sessions.mjs'
import { OPTIONS, checkpointOf, openStore } from './stores.mjs'

/** A store on files with one item of every kind in two sessions. */
export async function fullStore() {
  const store = await openStore()
  const session = makeSession('full', { name: '🟦 "full"' })
  session.taskTree = { a: makeTask('a', { status: 'in_progress' }), b: makeTask('b', { prompt: 'é\n' }) }
  await store.saveSession(session)
  await store.saveTaskTree('full', session.taskTree)
  await store.saveTaskResult('full', 'a', { success: true, output: '✓' })
  await store.saveTaskResult('full', 'b', null)
  const made = []
  for (const compress of [false, true, false, true]) {
    const options = { ...OPTIONS, compress, label: `made ${compress}` }
    made.push(await checkpointOf(store, session, options, { x: makeAgent('x') }, { key: [1, 'é'] }))
  }
  const [first, second, third] = made.map(({ checkpointId }) => checkpointId)
  await store.pinCheckpoint('full', first)
  await store.pinCheckpoint('full', second)
  await store.labelCheckpoint('full', second, 'given "later"')
  await store.labelCheckpoint('full', third, null)
  const writer = store.agent('full', 'writer')
  await writer.save({ iteration: 1, messages: [{ role: 'user', content: 'é' }], context: new Uint8Array([0, 255, 7]) })
  await writer.save({ iteration: 2, status: 'halted', statusReason: 'loop' }, { compress: true })
  await store.agent('full', 'critic').save({ iteration: 1 })
  await store.forkSession({ sessionId: 'full', checkpointId: first, newSessionId: 'fork' })
  await store.agent('agents only', 'lonely').save({ iteration: 1 })
  return store
}

const withoutPaths = (values) => values.map(({ path: _, ...rest }) => rest)

/** Everything readable of a session, without paths. */
export async function contentsOfSession(store, id) {
  const agents = await store.listAgents(id)
  const { checkpoints, agentCheckpoints, files, whole } = await store.verifySession(id)
  const { sizeBytes: _, ...info } = (await store.sessionsInfo()).find((line) => line.id === id)
  return {
    info,
    whole,
    session: await store.loadSession(id),
    taskTree: await store.loadTaskTree(id),
    results: [await store.loadTaskResult(id, 'a'), await store.loadTaskResult(id, 'b')],
    list: await store.listCheckpoints(id),
    infos: await store.listCheckpointInfo(id),
    agents: await Promise.all(agents.map((agent) => store.agent(id, agent).list())),
    agentInfos: await Promise.all(agents.map((agent) => store.agent(id, agent).info())),
    verified: [withoutPaths(checkpoints), withoutPaths(agentCheckpoints), withoutPaths(files)],
  }
}
