import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

describe('the demonstration', () => {
  it('is killed, restores, finishes, and prints plain lines in a pipe', () => {
    const demo = fileURLToPath(new URL('../demo/main.mjs', import.meta.url))
    const printed = execFileSync(process.execPath, [demo], { encoding: 'utf8' })
    assert.equal(printed.includes('\u001b'), false)
    assert.match(printed, /^SIGKILL: the process is gone, with \d+ tasks done and \d+ in progress$/m)
    assert.match(printed, /^Restored cp-\S+ in [\d.]+ ms: \d+ of 301 tasks were done, \d+ interrupted ones are reset$/m)
    assert.match(printed, /durable after [\d.]+ ms, event loop held [\d.]+ ms$/m)
    assert.match(printed, /tasks finished +301 of 301$/m)
  })
})
