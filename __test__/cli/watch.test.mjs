import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'

import { WIDTHS, assertFits, assertPlain } from '../support/cli-output.mjs'
import { CONCURRENT, killChildren, outcomeOf, startWaymark } from '../support/command.mjs'
import { copyOfStore, exampleStore } from '../support/example-store.mjs'
import { makeSession, makeTask } from '../support/sessions.mjs'
import { checkpointOf, openStore } from '../support/stores.mjs'
import { CTRL_C, noTerminal, openWaymark } from '../support/terminal.mjs'
import { until } from '../support/waiting.mjs'

const QUICKLY = ['--interval', '50ms']

describe('watch', CONCURRENT, () => {
  let original

  before(async () => {
    original = (await exampleStore()).location
  })

  after(killChildren)

  /** Writes a checkpoint, as another process would during the watch. */
  const workOn = async (location, id, status = 'in_progress') => {
    const store = await openStore(location)
    const session = makeSession(id, {
      name: 'Seen at work',
      taskTree: { 'new-task': makeTask('new-task', { status }) },
    })
    await store.saveSession(session)
    const { checkpointId } = await checkpointOf(store, session)
    await store.close()
    return checkpointId
  }

  /** Writes checkpoints until the watcher reports one: from then on it must report all. Returns its output. */
  const watching = async (child, location) => {
    let printed = ''
    child.stdout.on('data', (text) => {
      printed += text
    })
    while (!printed.includes('warming-up')) await workOn(location, 'warming-up')
    return () => printed
  }

  for (const columns of WIDTHS) {
    it(`redraws in place on ${columns} columns and restores the screen`, { skip: noTerminal }, async () => {
      const location = copyOfStore(original)
      const terminal = openWaymark(['watch', location, ...QUICKLY], { columns })
      await terminal.shows(/nightly-build/)
      assert.doesNotMatch(terminal.text, /newcomer/)
      await workOn(location, 'newcomer')
      await terminal.shows(/newcomer/)
      assert.deepEqual(terminal.wrapped, [])
      assert.equal(terminal.text.match(/nightly-report/g)?.length, 1, 'it is redrawn in place')
      terminal.type(CTRL_C)
      const code = await terminal.ended
      assert.ok(code === 0 || code === 130, `${code}`)
      assertFits(terminal)
    })
  }

  it('shows one session and updates its tasks', { skip: noTerminal }, async () => {
    const location = copyOfStore(original)
    await workOn(location, 'alone')
    const terminal = openWaymark(['watch', 'alone', location, ...QUICKLY])
    await terminal.shows(/new-task/)
    const id = await workOn(location, 'alone', 'completed')
    await terminal.shows((text = terminal.text) => text.includes(id) || /1\/1/.test(text))
    terminal.type(CTRL_C)
    await terminal.ended
    assertFits(terminal)
  })

  it('never draws more rows than the screen has', { skip: noTerminal }, async () => {
    const terminal = openWaymark(['watch', 'nightly-build', original, ...QUICKLY], { columns: 80, rows: 12 })
    await terminal.shows(/139\/401/)
    assert.ok(terminal.lines.length <= 12, terminal.text)
    assert.match(terminal.lines.slice(0, 4).join('\n'), /nightly-build/, 'the header is visible')
    terminal.type(CTRL_C)
    await terminal.ended
    assertFits(terminal)
  })

  it('always shows tasks, and no title without lines', { skip: noTerminal }, async () => {
    const terminal = openWaymark(['watch', 'nightly-build', original, ...QUICKLY])
    await terminal.shows(/139\/401/)
    assert.match(terminal.text, /^Tasks\n.*root/m)
    assert.doesNotMatch(terminal.text, /^(?:Newest checkpoints|Errors|Agents)\n*$(?![^])/m, 'no title without lines')
    terminal.type(CTRL_C)
    await terminal.ended
  })

  it('prints lines on a terminal that cannot redraw', { skip: noTerminal }, async () => {
    const location = copyOfStore(original)
    const terminal = openWaymark(['watch', location, ...QUICKLY], { env: { TERM: 'dumb' } })
    await terminal.shows(/Watching/)
    const id = await workOn(location, 'newcomer')
    await terminal.shows(new RegExp(id))
    terminal.type(CTRL_C)
    await terminal.ended
    assertPlain(terminal.raw.replaceAll('\r', ''))
  })

  it('accepts an interval longer than a timer', async () => {
    const child = startWaymark(['watch', original, '--interval', '500w'])
    const outcome = outcomeOf(child)
    let told = ''
    child.stderr.on('data', (text) => (told += text))
    await until(() => told.includes('Watching'))
    await setTimeout(200)
    child.kill('SIGINT')
    assert.doesNotMatch((await outcome).stderr, /Warning/)
  })

  it('does not report old checkpoints as new after the store was unavailable', async () => {
    const location = copyOfStore(original)
    const child = startWaymark(['watch', location, ...QUICKLY])
    const outcome = outcomeOf(child)
    const printed = await watching(child, location)
    renameSync(location, `${location}-away`)
    mkdirSync(location)
    await setTimeout(400)
    rmSync(location, { recursive: true })
    renameSync(`${location}-away`, location)
    const id = await workOn(location, 'back')
    await until(() => printed().includes(id))
    child.kill('SIGINT')
    assert.doesNotMatch((await outcome).stdout, /nightly-build/)
  })

  it('prints one line for each new checkpoint in a pipe, and ends with a signal', async () => {
    const location = copyOfStore(original)
    const child = startWaymark(['watch', location, ...QUICKLY])
    const outcome = outcomeOf(child)
    const printed = await watching(child, location)
    const ids = [
      await workOn(location, 'piped'),
      await workOn(location, 'piped'),
      await workOn(location, 'nightly-report'),
    ]
    await until(() => ids.every((id) => printed().includes(id)))
    child.kill('SIGINT')
    const { stdout, stderr } = await outcome
    assertPlain(stdout)
    assertPlain(stderr)
    for (const id of ids) {
      assert.equal(stdout.split('\n').filter((line) => line.includes(id)).length, 1, stdout)
    }
  })

  it('prints one document per line with --json', async () => {
    const location = copyOfStore(original)
    const child = startWaymark(['watch', location, '--json', ...QUICKLY])
    const outcome = outcomeOf(child)
    const printed = await watching(child, location)
    const id = await workOn(location, 'piped')
    await until(() => printed().includes(id))
    child.kill('SIGINT')
    const { stdout } = await outcome
    const documents = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.ok(documents.some((document) => JSON.stringify(document).includes(id)))
  })

  it('ends without an error when its output pipe is closed', async () => {
    const location = copyOfStore(original)
    const child = startWaymark(['watch', location, ...QUICKLY])
    const outcome = outcomeOf(child)
    await watching(child, location)
    child.stdout.destroy()
    await workOn(location, 'unseen')
    const { code, stderr } = await outcome
    assert.equal(code, 0)
    assert.doesNotMatch(stderr, /EPIPE|rror| at /)
  })
})
