import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const documents = ['.', 'docs'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(ROOT, folder, name)),
)

/** The anchors of a document as GitHub makes them. */
function anchorsOf(text) {
  const headings = text.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.*)$/gm)
  return new Set(
    [...headings].map(([, heading]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
}

/** The links of a document that lead nowhere. */
function brokenLinks(path, text) {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1])
  return links.filter((link) => {
    if (/^https?:/.test(link)) return false
    const [file, anchor] = link.split('#')
    const target = join(dirname(path), file)
    if (file && !existsSync(target)) return true
    return anchor !== undefined && !anchorsOf(file ? readFileSync(target, 'utf8') : text).has(anchor)
  })
}

/** The paths in backticks, from the root of the repository, that do not exist. */
function missingPaths(text) {
  const paths = text.matchAll(
    /`((?:src|lib|cli|docs|examples|benchmark|faults|scripts|tests|demo|__test__)\/[\w./-]*|\.ci\/run|index\.js)`/g,
  )
  return [...paths].map((match) => match[1]).filter((path) => !existsSync(join(ROOT, path)))
}

describe('the documents', () => {
  it('include the glossary, the architecture and the format', () => {
    const names = new Set(documents.map((path) => relative(ROOT, path).replaceAll('\\', '/')))
    for (const name of ['glossary', 'architecture', 'format']) assert.ok(names.has(`docs/${name}.md`), name)
  })

  for (const path of documents) {
    const name = relative(ROOT, path)
    const text = readFileSync(path, 'utf8')
    it(`${name} has no broken link`, () => assert.deepEqual(brokenLinks(path, text), []))
    it(`${name} names no path that does not exist`, () => assert.deepEqual(missingPaths(text), []))
  }

  it('with a broken link, anchor or path are reported', () => {
    const path = join(ROOT, 'docs/sample.md')
    const text = '# One\n[a](#one) [b](format.md) [c](#two) [d](gone.md) [e](format.md#gone) `src/gone.rs` `src/lib.rs`'
    assert.deepEqual(brokenLinks(path, text), ['#two', 'gone.md', 'format.md#gone'])
    assert.deepEqual(missingPaths(text), ['src/gone.rs'])
  })
})
