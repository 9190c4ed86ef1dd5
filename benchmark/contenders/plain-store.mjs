// A store in plain JavaScript that works like the original: pretty JSON, a temporary file and a rename, nothing
// synced, and a retention that reads every checkpoint there is.

import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'

const gzip = promisify(zlib.gzip)
const gunzip = promisify(zlib.gunzip)

export class PlainStore {
  #base
  #limit

  constructor(base, limit = 100) {
    this.#base = base
    this.#limit = limit
  }

  async save(sessionId, { session, agentStates, contextStore }, { compress = false } = {}) {
    const id = `cp-${Date.now().toString(36)}-${randomUUID().slice(0, 6)}`
    const { taskTree, ...rest } = session
    const timestamp = Date.now()
    const covered = { sessionId, timestamp, taskTree, agentStates }
    const checkpoint = {
      id,
      sessionId,
      timestamp,
      trigger: 'auto',
      session: { ...rest, id: sessionId, lastCheckpointId: id, checkpointIds: [...session.checkpointIds, id] },
      taskTree,
      agentStates,
      contextStore,
      checksum: createHash('sha256').update(JSON.stringify(covered)).digest('hex'),
      version: '1.0.0',
      sizeBytes: 0,
    }
    const directory = this.#checkpoints(sessionId)
    await mkdir(directory, { recursive: true })
    const bytes = compress ? await gzip(JSON.stringify(checkpoint)) : JSON.stringify(checkpoint, null, 2)
    const path = join(directory, `${id}.json${compress ? '.gz' : ''}`)
    await writeFile(`${path}.tmp`, bytes)
    await rename(`${path}.tmp`, path)
    await this.#retain(sessionId)
  }

  async latest(sessionId) {
    return (await this.list(sessionId)).checkpoints[0]
  }

  async list(sessionId) {
    const directory = this.#checkpoints(sessionId)
    const files = []
    for (const name of await readdir(directory)) {
      if (/\.json(\.gz)?$/.test(name)) files.push({ name, modified: (await stat(join(directory, name))).mtimeMs })
    }
    files.sort((a, b) => b.modified - a.modified)
    const checkpoints = []
    for (const { name } of files) {
      const bytes = await readFile(join(directory, name))
      checkpoints.push(JSON.parse((name.endsWith('.gz') ? await gunzip(bytes) : bytes).toString('utf8')))
    }
    return { checkpoints, total: files.length }
  }

  async #retain(sessionId) {
    const { checkpoints } = await this.list(sessionId)
    for (const { id } of checkpoints.slice(this.#limit)) {
      await rm(join(this.#checkpoints(sessionId), `${id}.json`), { force: true })
      await rm(join(this.#checkpoints(sessionId), `${id}.json.gz`), { force: true })
    }
  }

  async close() {}

  #checkpoints(sessionId) {
    return join(this.#base, sessionId, 'checkpoints')
  }
}
