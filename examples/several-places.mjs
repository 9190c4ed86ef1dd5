// When one server is not enough: sessions are independent, so each place holds some of them, and the id of a session says which.
// One more place takes over its share, session by session, and nothing else moves.
//
//   node examples/several-places.mjs [location ...]

import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { CheckpointStore } from '../index.js'

const directory = mkdtempSync(join(tmpdir(), 'waymark-example-'))
const given = process.argv.slice(2)
// Yours are databases: postgres://checkpoints@db-1/agents, postgres://checkpoints@db-2/agents, …
const locations = given.length > 1 ? given : ['one', 'two', 'three'].map((name) => join(directory, name))

/** Every orchestrator finds the same place, without asking anybody: the one that scores highest with this id. */
function placeOf(sessionId, places) {
  const score = (place) => createHash('sha256').update(`${place} ${sessionId}`).digest('hex')
  return places.reduce((best, place) => (score(place) > score(best) ? place : best))
}

const stores = new Map()
for (const location of locations) {
  const store = new CheckpointStore(location)
  await store.initialize()
  stores.set(location, store)
}

// Two places at first.
const [added] = locations.slice(-1)
const before = locations.slice(0, -1)
const ids = Array.from({ length: 300 }, (_, number) => `session-${number}`)
await Promise.all(
  ids.map(async (id) => {
    const store = stores.get(placeOf(id, before))
    // Yours will have all members of SwarmSession.
    const saved = await store.saveSession({ id, status: 'active', taskTree: {}, checkpointIds: [] })
    if (!saved.success) throw new Error(saved.error)
  }),
)

// Then one more. A session moves while its mover owns it, so that nobody writes to what is about to go.
let moved = 0
for (const id of ids) {
  const [from, to] = [placeOf(id, before), placeOf(id, locations)]
  if (from === to) continue
  if (to !== added) throw new Error(`${id} moves between places that were there`)
  const lease = await stores.get(from).acquireSession(id, { owner: 'mover' })
  await stores.get(from).copyTo(stores.get(to), { sessionId: id })
  await stores.get(from).deleteSession(id)
  await lease.release()
  moved += 1
}

const held = await Promise.all([...stores.values()].map((store) => store.listSessions()))
const isRight = held.every((sessions, at) => sessions.every((id) => placeOf(id, locations) === locations[at]))
console.log(`${held.flat().length} sessions, each in its place: ${isRight}`) // prints: 300 sessions, each in its place: true
console.log(`about a third moved: ${Math.abs(moved / ids.length - 1 / 3) < 0.15}`) // prints: about a third moved: true

for (const store of stores.values()) await store.close()
rmSync(directory, { recursive: true })
