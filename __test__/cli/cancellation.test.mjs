import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'

import { assertFits, jsonDocumentOf } from '../support/cli-output.mjs'
import { killChildren, outcomeOf, startWaymark, waymark } from '../support/command.mjs'
import { folderOf } from '../support/deltas.mjs'
import { CHECKPOINT_COUNT, compressedStore, largeStore, manyCheckpoints } from '../support/large-stores.mjs'
import { openStore, scratchDirectory } from '../support/stores.mjs'
import { CTRL_C, noTerminal, openWaymark } from '../support/terminal.mjs'
import { until } from '../support/waiting.mjs'

const sizeOf = (path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** The files below a directory that are larger than 1 kB. */
const sizesIn = (directory) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => [entry.name, sizeOf(join(entry.parentPath ?? entry.path, entry.name))])
    .filter(([, size]) => size > 1000)

/** A progress text. */
const PROGRESS = /\b\d+ of \d+\b/

describe('Ctrl-C during a long command', { skip: noTerminal }, () => {
  let heavyStore
  let squeezedStore
  let manyStore

  before(async () => {
    heavyStore = await largeStore()
    squeezedStore = await compressedStore()
    manyStore = await manyCheckpoints()
  })

  after(killChildren)

  /** Runs a command until it shows progress, or until `when` holds, and cancels it. */
  const cancel = async (args, { columns = 80, when } = {}) => {
    const terminal = openWaymark(args, { columns })
    await (when ? until(when) : terminal.shows(PROGRESS))
    terminal.type(CTRL_C)
    const code = await terminal.ended
    assert.equal(code, 130, terminal.text)
    assertFits(terminal)
    assert.match(terminal.text, /[Ss]topped.*whole/s)
    assert.doesNotMatch(terminal.text, PROGRESS, 'the bar is cleared')
  }

  const stored = async (location, session) => {
    const store = await openStore(location)
    const { whole, checkpoints } = await store.verifySession(session)
    await store.close()
    assert.equal(whole, true)
    return checkpoints.length
  }

  it('stops verify with exit code 130', async () => {
    await cancel(['verify', squeezedStore])
    await cancel(['verify', 'squeezed', squeezedStore], { columns: 120 })
  })

  it('stops export and leaves no file', async () => {
    const directory = scratchDirectory()
    await cancel(['export', 'heavy', join(directory, 'heavy.waymark'), heavyStore], {
      when: () => readdirSync(directory).length > 0,
    })
    assert.deepEqual(readdirSync(directory), [])
    assert.equal(await stored(heavyStore, 'heavy'), 60)
  })

  it('stops import and leaves no session', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'heavy.waymark')
    const store = await openStore(heavyStore)
    await store.exportSession('heavy', file)
    await store.close()
    const target = join(directory, 'new')
    await cancel(['import', file, target], { when: () => existsSync(target) && readdirSync(target).length > 0 })
    const emptied = await openStore(target)
    assert.deepEqual(await emptied.sessionsInfo(), [])
    await emptied.close()
    assert.deepEqual(sizesIn(target), [])
  })

  it('stops copy; the copied checkpoints are whole, and the next copy resumes', async () => {
    const target = join(scratchDirectory(), 'copy')
    await cancel(['copy', heavyStore, target])
    assert.ok((await stored(target, 'heavy')) < 60)
    const { unchanged, checkpoints } = jsonDocumentOf(await waymark(['copy', heavyStore, target, '--json', '--yes']))
    assert.ok(unchanged > 0 && checkpoints > 0, JSON.stringify({ unchanged, checkpoints }))
    assert.equal(await stored(target, 'heavy'), 60)
  })

  it('stops convert; every checkpoint is whole in one of the encodings', async () => {
    await cancel(['convert', 'gzip', 'squeezed', squeezedStore, '--yes'])
    assert.equal(await stored(squeezedStore, 'squeezed'), 20)
    const store = await openStore(squeezedStore)
    const { checkpoints } = await store.listCheckpointInfo('squeezed')
    await store.close()
    assert.equal(new Set(checkpoints.map(({ encoding }) => encoding)).size, 2)
  })

  it('stops prune; the remaining checkpoints are whole, and the newest is among them', async () => {
    const newest = async () => {
      const store = await openStore(manyStore)
      const { checkpoints } = await store.listCheckpointInfo('many', { limit: 1 })
      await store.close()
      return checkpoints[0].id
    }
    const expected = await newest()
    const folder = folderOf(manyStore, 'many')
    await cancel(['prune', 'many', '--keep-last', '1', manyStore, '--yes'], {
      when: () => readdirSync(folder).length < CHECKPOINT_COUNT,
    })
    const left = await stored(manyStore, 'many')
    assert.ok(left > 1 && left < CHECKPOINT_COUNT, `${left} are left`)
    assert.equal(await newest(), expected)
  })

  it('is equivalent to SIGTERM without a terminal', async () => {
    const child = startWaymark(['convert', 'json', 'squeezed', squeezedStore, '--yes'])
    const outcome = outcomeOf(child)
    const folder = folderOf(squeezedStore, 'squeezed')
    await until(() => readdirSync(folder).some((name) => name.endsWith('.json')))
    child.kill('SIGTERM')
    const { code, stdout, stderr } = await outcome
    assert.deepEqual([code, stdout], [130, ''], stderr)
    assert.match(stderr, /[Ss]topped.*whole/)
    assert.equal(await stored(squeezedStore, 'squeezed'), 20)
  })
})
