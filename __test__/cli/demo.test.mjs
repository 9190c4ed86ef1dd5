import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, it } from 'node:test'

import { WIDTHS, assertFits, assertNoEscapes, jsonDocumentOf } from '../support/cli-output.mjs'
import { CONCURRENT, waymark } from '../support/command.mjs'
import { scratchDirectory } from '../support/stores.mjs'
import { noTerminal, seenOf } from '../support/terminal.mjs'

describe('waymark demo', CONCURRENT, () => {
  it('finishes in a pipe and leaves no files', async () => {
    const directory = scratchDirectory()
    const env = { HOME: directory, USERPROFILE: directory, TMPDIR: directory, TEMP: directory, TMP: directory }
    const outcome = await waymark(['demo'], { env })
    assert.equal(outcome.code, 0, outcome.stderr)
    assertNoEscapes(outcome)
    assert.match(outcome.stdout, /finished, checkpointed and lost +0 tasks$/m)
    // The compile cache of Node.js.
    const left = readdirSync(directory).filter((name) => name !== 'node-compile-cache')
    assert.deepEqual(left, [])
  })

  it('prints one document with --json', async () => {
    const outcome = await waymark(['demo', '--json'])
    assert.equal(outcome.code, 0, outcome.stderr)
    assert.equal(typeof jsonDocumentOf(outcome), 'object')
  })

  for (const columns of WIDTHS) {
    it(`fits a terminal of ${columns} columns`, { skip: noTerminal }, async () => {
      const seen = await seenOf(['demo'], { columns })
      assert.equal(seen.code, 0, seen.text)
      assertFits(seen)
      assert.match(seen.text, /tasks finished +301 of 301/)
    })
  }
})
