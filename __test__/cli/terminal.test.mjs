import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { CTRL_C, ENTER, noTerminal, openTerminal } from '../support/terminal.mjs'

const node = (source, options) => openTerminal([process.execPath, '-e', source], options)

/** Tests of the command rely on this screen. */
describe('the terminal of the tests', { skip: noTerminal }, () => {
  it('has the requested size for both streams', async () => {
    const terminal = node(`console.log(process.stdout.columns, process.stdout.rows, process.stderr.columns)`, {
      columns: 97,
      rows: 31,
    })
    assert.equal(await terminal.ended, 0)
    assert.deepEqual(terminal.lines, ['97 31 97'])
  })

  it('returns the exit code', async () => {
    assert.equal(await node('process.exit(7)').ended, 7)
  })

  it('shows no colour codes and no overwritten text', async () => {
    const terminal = node(String.raw`process.stdout.write('\x1b[31mred\x1b[0m\n50 %\r\x1b[2K100 %\n')`)
    await terminal.ended
    assert.deepEqual(terminal.lines, ['red', '100 %'])
    assert.ok(terminal.raw.includes('\u001b[31m'))
  })

  it('reports wrapped lines and knows the width of wide characters', async () => {
    const fits = node(`console.log('あ'.repeat(39) + '🚀')`)
    await fits.ended
    assert.deepEqual(fits.wrapped, [])
    const wide = node(`console.log('あ'.repeat(39) + '🚀.')`)
    await wide.ended
    assert.equal(wide.wrapped.length, 1)
  })

  it('types answers, and Ctrl-C as a signal', async () => {
    const terminal = node(`
      process.on('SIGINT', () => process.exit(130))
      process.stdin.once('data', (text) => console.log('heard ' + text))
      console.log('asking')`)
    await terminal.shows(/asking/)
    terminal.type(`yes${ENTER}`)
    await terminal.shows(/heard yes/)
    terminal.type(CTRL_C)
    assert.equal(await terminal.ended, 130)
  })

  it('reports what was visible when an expected text never appears', async () => {
    const terminal = node(`console.log('something else')`)
    await assert.rejects(terminal.shows(/what is waited for/), /ended without showing.*\nsomething else/)
  })
})
