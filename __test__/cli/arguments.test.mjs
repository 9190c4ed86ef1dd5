import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'

import { reference, withReference } from '../../scripts/command-reference.mjs'

const require = createRequire(import.meta.url)
const { optionsOf, readArguments, usageLine } = require('../../cli/input/arguments.js')
const { allCommands, commandOf } = require('../../cli/commands/index.js')
const { helpOf, overview } = require('../../cli/views/help.js')
const { closestMatches } = require('../../cli/input/suggest.js')
const { durationMs, sizeBytes, wholeNumber } = require('../../cli/input/quantities.js')
const { ago, bytes, duration } = require('../../cli/terminal/units.js')

describe('quantities on the command line', () => {
  it('accept the common units of time and size', () => {
    const spans = {
      '250ms': 250,
      '90s': 90_000,
      '5m': 300_000,
      '5min': 300_000,
      '12h': 43_200_000,
      '7d': 604_800_000,
      '2w': 1_209_600_000,
    }
    for (const [text, ms] of Object.entries(spans)) assert.equal(durationMs('--max-age', text), ms, text)
    const sizes = { 100: 100, '500MB': 5e8, '1.5 gb': 1.5e9, '2GiB': 2 ** 31, '10k': 10_000, 0: 0 }
    for (const [text, size] of Object.entries(sizes)) assert.equal(sizeBytes('--max-bytes', text), size, text)
    assert.equal(wholeNumber('--limit', '10'), 10)
  })

  it('are refused without a known unit or a plain number', () => {
    for (const text of ['', '7', 'd', '7x', '-7d', '1e3d', '7constructor']) {
      assert.throws(() => durationMs('--max-age', text), { exitCode: 2, message: /such as 90s/ }, text)
    }
    for (const text of ['', 'MB', '5XB', '1e30', '99999999TB'])
      assert.throws(() => sizeBytes('--max-bytes', text), { exitCode: 2 })
    for (const text of ['', '1.5', '-1', 'x', '99999999999999999'])
      assert.throws(() => wholeNumber('-n', text), { exitCode: 2 })
  })
})

describe('formatted quantities', () => {
  it('have at most three digits and a unit', () => {
    const sizes = {
      0: '0 B',
      999: '999 B',
      1000: '1.0 kB',
      9949: '9.9 kB',
      9950: '10 kB',
      999_499: '999 kB',
      999_500: '1.0 MB',
      1.2e9: '1.2 GB',
    }
    for (const [size, text] of Object.entries(sizes)) assert.equal(bytes(Number(size)), text)
    assert.deepEqual([0, 999, 1000, 59_999, 60_000, 7_200_000, 1e9].map(duration), [
      '0 ms',
      '999 ms',
      '1 s',
      '59 s',
      '1 min',
      '2 h',
      '11 d',
    ])
  })

  it('of a time say how long ago it was, or how soon it will be', () => {
    assert.equal(ago(1000, 181_000), '3 min ago')
    assert.equal(ago(181_000, 1000), 'in 3 min')
    assert.equal(ago(1000, 1500), 'now')
    assert.equal(ago(Number.NaN), '?')
  })
})

describe('suggestions for a misspelled name', () => {
  it('are the candidates within the edit distance, closest first', () => {
    assert.deepEqual(closestMatches('lables', ['label', 'ls', 'labels']), ['labels', 'label'])
    assert.deepEqual(closestMatches('hsow', ['show', 'stats']), ['show'])
    assert.deepEqual(closestMatches('x', ['nightly']), [])
  })
})

describe('positional arguments', () => {
  const argsOf = (name, ...argv) => readArguments(commandOf(name), argv).args

  it('are assigned by their number; a single optional one is a location if it looks like one', () => {
    assert.deepEqual(argsOf('ls'), {})
    assert.deepEqual(argsOf('ls', 'nightly'), { session: 'nightly' })
    assert.deepEqual(argsOf('ls', './nightly'), { location: './nightly' })
    assert.deepEqual(argsOf('ls', './nightly', 'x'), { session: './nightly', location: 'x' })
    assert.deepEqual(argsOf('show', 'a/b', 'x'), { 'session[/checkpoint]': 'a/b', location: 'x' })
    assert.deepEqual(argsOf('convert', 'zstd', '/x'), { encoding: 'zstd', location: '/x' })
    assert.deepEqual(argsOf('export', 'a', './f', './s'), { session: 'a', file: './f', location: './s' })
    assert.deepEqual(argsOf('copy', 'a', 'b'), { from: 'a', to: 'b' })
  })

  it('of label have no label with --remove', () => {
    assert.deepEqual(argsOf('label', 'a/b', 'x', './s'), { 'session/checkpoint': 'a/b', label: 'x', location: './s' })
    assert.deepEqual(argsOf('label', 'a/b', '--remove', 's'), { 'session/checkpoint': 'a/b', location: 's' })
  })

  it('are refused with a pointer to --help if they are too few, too many or unknown', () => {
    assert.throws(() => argsOf('show'), { exitCode: 2, message: /needs a session.*See waymark show --help\./ })
    assert.throws(() => argsOf('ls', 'a', 'b', 'c'), { exitCode: 2, message: /unexpected argument, "c"/ })
    assert.throws(() => argsOf('ls', '--jsn'), { exitCode: 2, message: /no option --jsn\. Did you mean --json\?/ })
    assert.throws(() => argsOf('ls', '--limit'), { exitCode: 2, message: /--limit needs a number/ })
    assert.throws(() => argsOf('ls', '--limit', '-5'), { exitCode: 2, message: /write --limit=<number>/ })
    assert.throws(() => argsOf('ls', '-qx'), { exitCode: 2, message: /no option -x/ })
    assert.throws(() => argsOf('ls', '--json=x'), { exitCode: 2, message: /--json takes no value/ })
    assert.throws(() => argsOf('ls', 'a', './x', '-s', './y'), { exitCode: 2, message: /two locations/ })
  })
})

describe('generated help', () => {
  for (const spec of allCommands()) {
    it(`of ${spec.name} lists its options, has a valid example, and fits 80 columns`, () => {
      const help = helpOf(spec)
      assert.ok(help.includes(`Usage: waymark ${usageLine(spec)}`))
      for (const { name, description } of optionsOf(spec)) {
        assert.ok(help.includes(`--${name}`), name)
        assert.match(description, /^[A-Z].*\.$/)
      }
      assert.ok(spec.examples.length > 0 && spec.examples.every((example) => help.includes(`\n  ${example}\n`)))
      for (const example of spec.examples) assert.doesNotThrow(() => readArguments(spec, example.split(' ').slice(2)))
      for (const line of help.split('\n')) assert.ok(line.length <= 80, line)
    })
  }

  it('lists all commands in the overview', () => {
    for (const { name, summary } of allCommands()) {
      assert.match(overview(), new RegExp(`^  ${name} +${summary.slice(0, 30).replaceAll('.', String.raw`\.`)}`, 'm'))
    }
    for (const line of overview().split('\n')) assert.ok(line.length <= 80, line)
  })

  it('matches the command table of the README', () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    assert.equal(readme, withReference(readme), 'npm run readme')
    for (const { summary } of allCommands()) assert.ok(reference().includes(summary))
  })
})
