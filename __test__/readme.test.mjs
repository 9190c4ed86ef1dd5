import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { scratchDirectory } from './support/stores.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const types = readFileSync(join(ROOT, 'index.d.ts'), 'utf8')

/** The examples: blocks of TypeScript. One that begins with `import` is a program. */
const examples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)]
  .map((match) => match[1])
  .filter((code) => code.startsWith('import'))

describe('the README', () => {
  it('has a usage example', () => {
    assert.ok(examples.length >= 1)
  })

  for (const [index, code] of examples.entries()) {
    it(`has an example ${index + 1} that compiles, and runs to its end`, () => {
      const project = scratchDirectory()
      mkdirSync(join(project, 'node_modules/@types'), { recursive: true })
      symlinkSync(ROOT, join(project, 'node_modules/waymark'))
      symlinkSync(join(ROOT, 'node_modules/@types/node'), join(project, 'node_modules/@types/node'))
      writeFileSync(join(project, 'package.json'), '{"type":"module"}')
      writeFileSync(join(project, 'example.ts'), code)
      const compilerOptions = { module: 'NodeNext', strict: true, target: 'ES2022', lib: ['ESNext'], types: ['node'] }
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
      execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', project], { stdio: 'pipe' })
      const home = { ...process.env, HOME: project, USERPROFILE: project }
      const printed = execFileSync(process.execPath, [join(project, 'example.js')], {
        cwd: project,
        env: home,
        encoding: 'utf8',
      })
      for (const [, expected] of code.matchAll(/console\.log\(.*?\) \/\/ (.*)$/gm)) {
        assert.ok(printed.includes(expected), `${expected} in ${printed}`)
      }
    })
  }

  it('names every method and every error code', () => {
    const store = types.slice(types.indexOf('export declare class CheckpointStore'))
    const methods = [...store.matchAll(/^ {2}([a-z]\w+)(?:<.*>)?\(/gm)].map((match) => match[1])
    assert.ok(methods.length >= 18)
    for (const method of new Set(methods)) {
      if (method !== 'constructor') assert.ok(readme.includes(`\`${method}(`), `${method} is missing`)
    }
    const codes = [...types.matchAll(/'(WAYMARK_\w+)'/g)].map((match) => match[1])
    assert.ok(codes.length >= 10)
    for (const code of new Set(codes)) assert.ok(readme.includes(`| \`${code}\` |`), `${code} is missing`)
  })

  it('names only codes that the store can give', () => {
    const source = readFileSync(join(ROOT, 'src/types/error.rs'), 'utf8')
    for (const [, code] of readme.matchAll(/\| `(WAYMARK_\w+)` \|/g)) assert.ok(source.includes(`"${code}"`), code)
    for (const [code] of source.matchAll(/WAYMARK_\w+/g)) assert.ok(types.includes(`'${code}'`), code)
  })
})
