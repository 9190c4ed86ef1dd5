// How long the JavaScript thread itself works while two checkpoints are compared: the processor time of that thread, which
// other processes cannot lengthen.

import { CheckpointStore } from '../index.js'

const [location] = process.argv.slice(2)
const store = new CheckpointStore(location, Infinity)
await store.initialize()
const { checkpoints } = await store.listCheckpointInfo('bench')
const [a, b] = checkpoints.map(({ id }) => `bench/${id}`)

const held = []
for (let round = 0; round < 110; round += 1) {
  const before = process.threadCpuUsage()
  await store.diffCheckpoints(a, b)
  const { user, system } = process.threadCpuUsage(before)
  if (round >= 10) held.push((user + system) / 1000)
}
process.send({ held })
process.disconnect()
