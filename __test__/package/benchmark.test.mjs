import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { afterEach, describe, it } from 'node:test'

import { postgres } from '../../benchmark/lines/postgres.mjs'
import { plot } from '../../benchmark/plot.mjs'
import { linesTable, withTables } from '../../benchmark/report.mjs'

const read = (name) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

const { DATABASE_URL, PG_BIN } = process.env

describe('benchmark figures', () => {
  afterEach(() => {
    for (const [name, value] of Object.entries({ DATABASE_URL, PG_BIN })) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })

  it('in the documents are those of the recorded run', () => {
    const results = JSON.parse(read('benchmark/results.json'))
    const documents = { 'README.md': read('README.md'), 'docs/architecture.md': read('docs/architecture.md') }
    assert.deepEqual(withTables(documents, results), documents)
    assert.ok(documents['README.md'].includes(linesTable(results.lines)))
    assert.ok(results.lines.length > 20)
  })

  it('state for every goal whether it is met, and why a line is missing', () => {
    const side = { median: 2, low: 1, high: 3 }
    const figures = { unit: 'ms', ours: side, theirs: side, ratio: 1 }
    const table = linesTable([
      { name: 'good', ...figures, target: { atMost: 1.5 }, reached: true },
      { name: 'bad', ...figures, target: { atLeast: 40 }, reached: false, note: 'noisy' },
      { name: 'absent', missing: 'it needs a newer Node.js' },
    ])
    assert.match(table, /\| good \| 2\.00 \(1\.00–3\.00\) ms \| .* \| 1\.00 × \| ≤ 1\.5 ×, reached \|/)
    assert.match(table, /\| bad \(noisy\) \|.*\| ≥ 40 ×, \*\*missed\*\* \|/)
    assert.match(table, /\| absent \|.*not measured: it needs a newer Node\.js \|/)
  })

  it('are missing with a reason if a server is not available', async () => {
    for (const [url, binaries, reason] of [
      ['', '/nowhere', /PG_BIN is \/nowhere/],
      ['postgres://unknown@127.0.0.1:1/nothing', '', /ECONNREFUSED/],
    ]) {
      Object.assign(process.env, { DATABASE_URL: url, PG_BIN: binaries })
      const lines = await postgres()
      assert.ok(lines.length > 20)
      for (const { missing } of lines) assert.match(missing, reason)
      assert.equal(new Set(lines.map(({ name }) => name)).size, lines.length)
    }
  })

  it('are drawn as a chart', () => {
    const series = [
      {
        name: 'a < b',
        points: [
          [0, 1],
          [10, 20],
        ],
      },
      { name: 'c', points: [[10, 300]] },
    ]
    const panel = { title: 't', axis: 'x', series }
    const svg = plot([panel, panel])
    assert.match(svg, /^<svg [^]*<\/svg>\n$/)
    assert.ok(svg.includes('a &lt; b') && !svg.includes('NaN'))
    assert.ok(existsSync(new URL('../../benchmark/cost.svg', import.meta.url)))
  })
})
