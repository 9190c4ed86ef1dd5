// Stores on places of their own, cleared away after the test.

import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'

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

/** The places that every behaviour must hold on, with a function that makes a new one. */
export const places = {
  files: () => scratchDirectory(),
  sqlite: () => `sqlite:${join(scratchDirectory(), 'store.db')}`,
  memory: () => 'memory:',
}

/** The names of those that several processes can share. */
export const durablePlaces = Object.keys(places).filter((name) => name !== 'memory')

/** An initialized store. */
export async function openStore(location = scratchDirectory(), options = undefined) {
  const store = new CheckpointStore(location, options)
  await store.initialize()
  return store
}

/** Runs the same suite on every backend: `suite(open)`, where `open(options)` is an initialized store. */
export function onEveryBackend(title, suite) {
  for (const [name, newPlace] of Object.entries(places)) {
    describe(`${title} (${name})`, () => suite((options) => openStore(newPlace(), options)))
  }
}

export const OPTIONS = { trigger: 'manual', includeContext: true, compress: false }

/** Creates a checkpoint that must succeed. */
export async function checkpointOf(store, session, options = OPTIONS, agents = {}, context = {}) {
  const result = await store.createCheckpoint(session, agents, context, options)
  if (!result.success) throw new Error(result.error)
  return result
}
