// New locations of every backend, for stores of this process and of other processes.

import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const { CheckpointStore } = createRequire(import.meta.url)('../../index.js')

export const BACKENDS = ['files', 'sqlite', 'memory', 'postgres']

let schemas = 0

/**
 * An empty location. `directory` is for other files, and is removed with it. A store in memory belongs to one
 * object: every `open` of such a location returns the same one.
 */
export function newLocation(backend, postgresUrl) {
  const directory = mkdtempSync(join(tmpdir(), 'waymark-mixed-'))
  const location = {
    files: () => join(directory, 'store'),
    sqlite: () => `sqlite:${join(directory, 'store.db')}`,
    memory: () => 'memory:',
    postgres: () => newSchema(postgresUrl),
  }[backend]()
  const opened = []
  const openNew = async (options) => {
    const store = new CheckpointStore(location, options)
    opened.push(store)
    await store.initialize()
    return store
  }
  let shared
  return {
    backend,
    location,
    directory,
    isShared: backend !== 'memory',
    open(options) {
      if (backend !== 'memory') return openNew(options)
      shared ??= openNew(options)
      return shared
    },
    async remove() {
      await Promise.all(opened.map((store) => store.close()))
      if (backend === 'postgres') await dropSchema(postgresUrl, location)
      rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

function newSchema(url) {
  const location = new URL(url)
  const prefix = process.env.WAYMARK_TEST_SCHEMA_PREFIX ?? 'waymark_mixed_'
  schemas += 1
  location.searchParams.set('schema', `${prefix}${process.pid}_m${schemas}`)
  return location.href
}

async function dropSchema(url, location) {
  const { query, quoted } = await import('../../scripts/postgres-wire.mjs')
  const schema = new URL(location).searchParams.get('schema')
  await query(url, `DROP SCHEMA IF EXISTS ${quoted(schema)} CASCADE`)
}
