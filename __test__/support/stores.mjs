// Stores on places of their own, cleared away after the test.

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

/** A server that runs; with it, the suites run on it alone: see `scripts/test-postgres.mjs`. */
const database = process.env.WAYMARK_TEST_DATABASE_URL

let schemas = 0

/** A schema that is not there yet. */
export function newSchema(url = database) {
  const location = new URL(url)
  const prefix = process.env.WAYMARK_TEST_SCHEMA_PREFIX ?? 'waymark_test_'
  schemas += 1
  location.searchParams.set('schema', `${prefix}${process.pid}_${schemas}`)
  return location.href
}

/** The places that there are, with a function that makes a new one. */
export const places = {
  files: () => scratchDirectory(),
  sqlite: () => `sqlite:${join(scratchDirectory(), 'store.db')}`,
  memory: () => 'memory:',
  ...(database && { postgres: () => newSchema() }),
}

/** The names of those that every behaviour must hold on. */
const tested = database ? ['postgres'] : Object.keys(places)

/** The same, for suites that run on each in a way of their own. */
export const testedPlaces = tested

/** The names of those that several processes can share. */
export const durablePlaces = tested.filter((name) => name !== 'memory')

/** The places that something from one of them has to get to: at least one of the two is tested. */
export function targetsFrom(source) {
  const names = Object.keys(places).filter((name) => tested.includes(source) || tested.includes(name))
  return Object.fromEntries(names.map((name) => [name, places[name]]))
}

/** An initialized store. */
export async function openStore(location = scratchDirectory(), options = undefined) {
  const store = new CheckpointStore(location, options)
  await store.initialize()
  return store
}

/** Runs the same suite on every backend: `suite(open)`, where `open(options)` is an initialized store. */
export function onEveryBackend(title, suite) {
  for (const name of tested) {
    describe(`${title} (${name})`, () => suite((options) => openStore(places[name](), options)))
  }
}

/** Runs the same on every backend that several stores can share: `suite(open)`, where each `open()` is another store on it. */
export function onSharedBackends(title, suite) {
  for (const name of durablePlaces) {
    describe(`${title} (${name})`, () =>
      suite(() => {
        const location = places[name]()
        return (options) => openStore(location, options)
      }))
  }
}

export const OPTIONS = { trigger: 'manual', includeContext: true, compress: false }

/** Creates a checkpoint that must succeed. */
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
