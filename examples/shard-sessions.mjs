// Spreads sessions over several stores by rendezvous hashing of their ids. When a store is added, only its share of the
// sessions moves.
//
//   node examples/shard-sessions.mjs [location ...]

import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { CheckpointStore } from '../index.js'

const directory = mkdtempSync(join(tmpdir(), 'waymark-example-'))
const given = process.argv.slice(2)
// Yours are databases: postgres://checkpoints@db-1/agents, postgres://checkpoints@db-2/agents, …
const locations = given.length > 1 ? given : ['one', 'two', 'three'].map((name) => join(directory, name))

/** The location of a session: the one that scores highest with its id, so every orchestrator computes the same. */
function locationOf(sessionId, candidates) {
  const score = (location) => createHash('sha256').update(`${location} ${sessionId}`).digest('hex')
  return candidates.reduce((best, location) => (score(location) > score(best) ? location : best))
}

const stores = new Map()
for (const location of locations) {
  const store = new CheckpointStore(location)
  await store.initialize()
  stores.set(location, store)
}

// Two stores at first.
const [added] = locations.slice(-1)
const before = locations.slice(0, -1)
const ids = Array.from({ length: 300 }, (_, number) => `session-${number}`)
await Promise.all(
  ids.map(async (id) => {
    const store = stores.get(locationOf(id, before))
    // Yours will have all members of SwarmSession.
    const saved = await store.saveSession({ id, status: 'active', taskTree: {}, checkpointIds: [] })
    if (!saved.success) throw new Error(saved.error)
  }),
)

// Then a third. The lease keeps other writers from a session while it moves.
let moved = 0
for (const id of ids) {
  const [from, to] = [locationOf(id, before), locationOf(id, locations)]
  if (from === to) continue
  if (to !== added) throw new Error(`${id} moves between stores that existed before`)
  const lease = await stores.get(from).acquireSession(id, { owner: 'mover' })
  await stores.get(from).copyTo(stores.get(to), { sessionId: id })
  await stores.get(from).deleteSession(id)
  await lease.release()
  moved += 1
}

const held = await Promise.all([...stores.values()].map((store) => store.listSessions()))
const isSharded = held.every((sessions, at) => sessions.every((id) => locationOf(id, locations) === locations[at]))
console.log(`${held.flat().length} sessions, each in its store: ${isSharded}`) // prints: 300 sessions, each in its store: true
console.log(`about a third moved: ${Math.abs(moved / ids.length - 1 / 3) < 0.15}`) // prints: about a third moved: true

for (const store of stores.values()) await store.close()
rmSync(directory, { recursive: true })
