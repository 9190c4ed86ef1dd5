import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url))

describe('the examples', () => {
  const names = readdirSync(EXAMPLES, { withFileTypes: true }).map((entry) =>
    entry.isDirectory() ? join(entry.name, 'main.mjs') : entry.name,
  )
  for (const name of names) {
    it(`${name} runs to its end and prints what its comments say`, () => {
      const path = join(EXAMPLES, name)
      const promised = [...readFileSync(path, 'utf8').matchAll(/\/\/ prints: (.*)$/gm)].map((match) => match[1])
      assert.ok(promised.length > 0, 'it promises nothing')
      const printed = execFileSync(process.execPath, [path], { encoding: 'utf8', timeout: 60_000 }).split('\n')
      for (const line of promised) assert.ok(printed.includes(line), `${line} in\n${printed.join('\n')}`)
    })
  }
})
