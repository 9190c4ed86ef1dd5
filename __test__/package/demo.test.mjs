import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { openScreen } from '../../demo/screen.mjs'

describe('the demo', () => {
  it('is killed, restores, finishes, and prints plain lines into a pipe', () => {
    const demo = fileURLToPath(new URL('../../demo/main.mjs', import.meta.url))
    const printed = execFileSync(process.execPath, [demo], { encoding: 'utf8' })
    assert.equal(printed.includes('\u001b'), false)
    assert.match(printed, /^SIGKILL: the process died with \d+ tasks done and \d+ in progress$/m)
    assert.match(printed, /^Restored cp-\S+ in [\d.]+ ms: \d+\/301 done, \d+ interrupted reset$/m)
    assert.match(printed, /durable after [\d.]+ ms, event loop blocked [\d.]+ ms$/m)
    assert.match(printed, /tasks finished +301 of 301$/m)
    assert.match(printed, /finished, checkpointed and lost +0 tasks$/m)
  })

  it('redraws in place on a terminal of 80 columns', () => {
    const rows = ['']
    let row = 0
    const columns = 80
    // The terminal features that the display uses: lines and moving up.
    const write = (text) => {
      for (const [, up, escape, char] of text
        .replaceAll('\u001b[', '␛')
        .matchAll(/␛(\d+)A|(␛[?\d;]*[A-Za-z])|([^␛])/g)) {
        if (up) row -= Number(up)
        else if (escape === '␛2K') rows[row] = ''
        else if (escape === '␛J') rows.length = row
        else if (char === '\n') row += 1
        else if (char) rows[row] = (rows[row] ?? '') + char
      }
    }
    const screen = openScreen({ isTTY: true, columns, hasColors: () => true, write })
    const seen = {
      total: 301,
      completed: 0,
      inProgress: 12,
      busy: Array.from({ length: 12 }, () => 'module-10.29'),
      checkpoints: [],
    }
    screen.print('A swarm starts in process 4194304')
    for (let completed = 0; completed <= 301; completed += 7) {
      seen.completed = completed
      screen.show(
        { kind: 'checkpoint', id: 'cp-mwiparyr-gs3vwg', tookMs: 1234.5, blockedMs: 123.4, sizeBytes: 1_234_567 },
        seen,
      )
      screen.show({ kind: 'progress' }, seen)
    }
    screen.show(
      { kind: 'restored', id: 'cp-mwiparyr-gs3vwg', tookMs: 123.4, completed: 300, reset: 12, total: 301 },
      seen,
    )
    screen.show({ kind: 'progress' }, seen)
    screen.close()
    const shown = rows.filter(Boolean)
    assert.equal(shown.length, 1 + 1 + 4, shown.join('\n'))
    for (const line of shown) assert.ok(line.length < columns, line)
  })
})
