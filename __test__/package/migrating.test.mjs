import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

const read = (name) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

const guide = read('MIGRATING.md')

/** The types without comments: a name in prose does not count. */
const types = read('index.d.ts')
  .replaceAll(/\/\*.*?\*\//gs, '')
  .replaceAll(/\/\/.*$/gm, '')

/** The names of a class's methods. */
function methodsOf(name) {
  const parts = types.matchAll(new RegExp(`^export (?:declare class|interface) ${name} \\{\\n(.*?)^\\}`, 'gms'))
  const bodies = [...parts].map((part) => part[1]).join('\n')
  return new Set([...bodies.matchAll(/^ {2}(?:static )?(\w+)(?:<.*>)?\(/gm)].map((match) => match[1]))
}

/** Receivers of calls, and their methods. */
const OWNERS = {
  store: methodsOf('CheckpointStore'),
  agent: methodsOf('AgentCheckpoints'),
  CheckpointPolicy: methodsOf('CheckpointPolicy'),
}

const words = new Set(types.match(/\w+/g))

/** The names in a piece of code that the types do not have. */
function unknownIn(code) {
  // Locations and file names are not method names.
  if (/^(memory:|sqlite:<path>)$/.test(code)) return []
  const literals = [...code.matchAll(/'([^']*)'/g)].map((match) => match[1])
  const unknown = literals.filter((literal) => literal !== 'memory:' && !types.includes(`'${literal}'`))
  const rest = code.replaceAll(/'[^']*'/g, '')
  for (const [, owner, method] of rest.matchAll(/(?:(\w+)\.)?(\w+)\(/g)) {
    const isKnown = owner ? OWNERS[owner]?.has(method) : Object.values(OWNERS).some((methods) => methods.has(method))
    if (!isKnown && method !== 'CheckpointStore') unknown.push(`${owner ?? ''}.${method}()`)
  }
  const named = rest.match(/\w+/g) ?? []
  return [...unknown, ...named.filter((word) => !words.has(word) && !['new', 'store', 'agent'].includes(word))]
}

/** The tables of names by heading: rows of two cells. */
const tables = new Map(
  guide
    .slice(guide.indexOf('# Coming from other checkpoint systems'))
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const rows = section.split('\n').filter((line) => line.startsWith('| '))
      return [section.split('\n')[0], rows.slice(1).map((row) => row.slice(2, -2).split(' | '))]
    }),
)

describe('the migration guide', () => {
  it('has a table for each of four systems', () => {
    assert.equal(tables.size, 4)
    for (const [heading, rows] of tables) assert.ok(rows.length >= 20, `${heading}: ${rows.length} rows`)
  })

  for (const [heading, rows] of tables) {
    it(`names only existing methods: ${heading}`, () => {
      for (const cells of rows) {
        assert.equal(cells.length, 2, cells.join(' | '))
        const [theirs, ours] = cells
        assert.ok(theirs.trim() && ours.trim(), cells.join(' | '))
        for (const [, code] of ours.matchAll(/`([^`]+)`/g)) assert.deepEqual(unknownIn(code), [], `${theirs}: ${code}`)
      }
    })
  }

  it('the check detects names that do not exist', () => {
    const known = ['store.copyTo(other)', 'agent.latest()', "new CheckpointStore('memory:')", 'keepPrevious', "'gzip'"]
    for (const code of known) assert.deepEqual(unknownIn(code), [])
    const unknown = ['store.latest()', 'agent.copyTo(other)', 'saveAll()', 'keepNothing', "'brotli'", 'AgentThing']
    for (const code of unknown) assert.notDeepEqual(unknownIn(code), [], code)
  })
})
