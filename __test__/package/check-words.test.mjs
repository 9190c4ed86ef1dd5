import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { bannedIn } from '../../scripts/check-words.mjs'

describe('check-words', () => {
  it('reports each banned word with its line and a replacement', () => {
    const found = bannedIn('A lease.\nSomebody waits, whoever it is.\n')
    assert.deepEqual(
      found.map(({ line, word }) => [line, word]),
      [
        [2, 'Somebody'],
        [2, 'whoever'],
      ],
    )
    for (const { instead } of found) assert.match(instead, /caller/)
  })

  it('accepts plain words that contain or resemble banned ones', () => {
    const text =
      'A conversion in place takes the place of a copy. The broom is encoded. A handle is given. Nine of them.'
    assert.deepEqual(bannedIn(text), [])
  })
})
