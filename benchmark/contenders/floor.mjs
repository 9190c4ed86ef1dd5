// About the minimum cost of a durable checkpoint with node:fs: one compact JSON.stringify, and then, off the JavaScript
// thread, one write, one sync, one rename, one sync of the directory. No checksum, no layout, no retention.

import { mkdir, open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'

export async function openFloor(directory) {
  const newest = new Map()
  let count = 0

  return {
    async save(sessionId, state) {
      const text = JSON.stringify(state)
      const folder = await folderOf(directory, sessionId)
      count += 1
      newest.set(sessionId, await write(folder, `${count}.json`, text))
    },
    saveAgent(sessionId, state) {
      return this.save(sessionId, state)
    },
    async latest(sessionId) {
      return JSON.parse(await readFile(newest.get(sessionId), 'utf8'))
    },
    /** One read and two floor writes; without their JSON.stringify if ready texts are passed. */
    async restore(sessionId, { session: { taskTree, ...session } }, texts) {
      await readFile(newest.get(sessionId))
      const folder = await folderOf(directory, sessionId)
      await write(folder, 'session.json', texts?.session ?? JSON.stringify(session))
      await write(folder, 'task-tree.json', texts?.taskTree ?? JSON.stringify(taskTree))
    },
    async close() {},
  }
}

const folders = new Map()

async function folderOf(directory, sessionId) {
  const folder = join(directory, sessionId)
  if (!folders.has(folder)) folders.set(folder, mkdir(folder, { recursive: true }))
  await folders.get(folder)
  return folder
}

async function write(folder, name, text) {
  const temporary = join(folder, `.${name}.tmp`)
  const file = await open(temporary, 'wx', 0o600)
  await file.writeFile(text)
  await file.sync()
  await file.close()
  const path = join(folder, name)
  await rename(temporary, path)
  const handle = await open(folder, 'r')
  await handle.sync()
  await handle.close()
  return path
}
