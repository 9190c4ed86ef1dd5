// Stores on locations of their own, removed when the process ends.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'

import { makeSession } from './sessions.mjs'

const require = createRequire(import.meta.url)

export const { CheckpointStore } = require('../../index.js')

const directories = []
process.on('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

export function scratchDirectory() {
  const directory = mkdtempSync(join(tmpdir(), 'waymark-test-'))
  directories.push(directory)
  return directory
}

/** A running server; if it is set, the suites run on it alone: see `scripts/test-postgres.mjs`. */
const database = process.env.WAYMARK_TEST_DATABASE_URL

let schemas = 0

/** A schema that does not exist yet. */
export function newSchema(url = database) {
  const location = new URL(url)
  const prefix = process.env.WAYMARK_TEST_SCHEMA_PREFIX ?? 'waymark_test_'
  schemas += 1
  location.searchParams.set('schema', `${prefix}${process.pid}_${schemas}`)
  return location.href
}

/** The backends, each with a function that returns a new location. */
export const backends = {
  files: () => scratchDirectory(),
  sqlite: () => `sqlite:${join(scratchDirectory(), 'store.db')}`,
  memory: () => 'memory:',
  ...(database && { postgres: () => newSchema() }),
}

/** The backends of this run. */
const tested = database ? ['postgres'] : Object.keys(backends)

/** The same, for suites that iterate in their own way. */
export const testedBackends = tested

/** The backends that several processes can share. */
export const durableBackends = tested.filter((name) => name !== 'memory')

/** The targets for a copy from a backend: at least one of the two is under test. */
export function targetsFrom(source) {
  const names = Object.keys(backends).filter((name) => tested.includes(source) || tested.includes(name))
  return Object.fromEntries(names.map((name) => [name, backends[name]]))
}

/** An initialized store. */
export async function openStore(location = scratchDirectory(), options = undefined) {
  const store = new CheckpointStore(location, options)
  await store.initialize()
  return store
}

/** Runs a suite on every backend: `suite(open)`, where `open(options)` resolves to an initialized store. */
export function onEveryBackend(title, suite) {
  for (const name of tested) {
    describe(`${title} (${name})`, () => suite((options) => openStore(backends[name](), options)))
  }
}

/** Runs a suite on every backend that several stores can share: `suite(shared)`, where `shared()` returns a function that opens a store on one location. */
export function onSharedBackends(title, suite) {
  for (const name of durableBackends) {
    describe(`${title} (${name})`, () =>
      suite(() => {
        const location = backends[name]()
        return (options) => openStore(location, options)
      }))
  }
}

export const OPTIONS = { trigger: 'manual', includeContext: true, compress: false }

/** Creates a checkpoint; throws if that fails. */
export async function checkpointOf(store, session, options = OPTIONS, agents = {}, context = {}) {
  const result = await store.createCheckpoint(session, agents, context, options)
  if (!result.success) throw new Error(result.error)
  return result
}

/** Creates a checkpoint of session `s`; resolves to its id. */
export async function newCheckpointId(store, options = {}) {
  return (await checkpointOf(store, makeSession('s'), { ...OPTIONS, ...options })).checkpointId
}

/** Creates checkpoints of session `s`, one after the other; resolves to their ids, newest first. */
export async function newCheckpointIds(store, count, options = {}) {
  const ids = []
  while (ids.length < count) ids.unshift(await newCheckpointId(store, options))
  return ids
}

/** The ids of all checkpoints of a session, newest first. */
export async function checkpointIdsOf(store, session = 's') {
  return (await store.listCheckpointInfo(session, { limit: 0 })).checkpoints.map(({ id }) => id)
}

/** How many results report success. */
export const successesIn = (results) => results.filter(({ success }) => success).length

/** Forks session `s`; throws if that fails. */
export async function forkOf(store, checkpointId, newSessionId, options = {}) {
  const result = await store.forkSession({ sessionId: 's', checkpointId, newSessionId, ...options })
  assert.equal(result.success, true, result.error)
  return result
}
