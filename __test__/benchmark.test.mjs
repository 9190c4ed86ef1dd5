import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

import { plot } from '../benchmark/plot.mjs'
import { linesTable, withTables } from '../benchmark/report.mjs'

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')

describe('the figures', () => {
  it('in the README are those of the run that is on record', () => {
    const results = JSON.parse(read('benchmark/results.json'))
    const readme = read('README.md')
    assert.equal(withTables(readme, results), readme)
    assert.ok(readme.includes(linesTable(results.lines)))
    assert.ok(results.lines.length > 20)
  })

  it('say of every goal whether it is reached, and why a line is missing', () => {
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

  it('become a picture', () => {
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
    assert.ok(existsSync(new URL('../benchmark/cost.svg', import.meta.url)))
  })
})
