import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { SESSIONS, exampleStore } from '../support/example-store.mjs'
import { scratchDirectory } from '../support/stores.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const isWindows = process.platform === 'win32'

const PROGRAM = `
async function main() {
  await using store = new CheckpointStore('memory:')
  await store.initialize()
  await store.saveTaskResult('s', 't', { from: 'the tarball' })
  console.log(JSON.stringify(await store.loadTaskResult('s', 't')))
}
void main()
`

const run = (command, args, cwd) => execFileSync(command, args, { cwd, encoding: 'utf8', shell: isWindows })

/** Packs the package as published: the loader in one tarball, the binary for this platform in another. */
function pack(directory) {
  // The napi command writes only inside the project of its working directory.
  copyFileSync(join(ROOT, 'package.json'), join(directory, 'package.json'))
  run(process.execPath, [join(ROOT, 'node_modules/@napi-rs/cli/dist/cli.js'), 'create-npm-dirs'], directory)
  const binary = readdirSync(ROOT).find((name) => name.endsWith('.node'))
  const platform = join(directory, 'npm', binary.split('.')[1])
  copyFileSync(join(ROOT, binary), join(platform, binary))
  const packed = [ROOT, platform].map((from) => {
    const [{ filename, files }] = JSON.parse(
      run('npm', ['pack', '--json', '--silent', '--pack-destination', directory], from),
    )
    return { tarball: join(directory, filename), files: files.map((file) => file.path) }
  })
  return { main: packed[0], platform: packed[1], binary }
}

describe('the package', () => {
  let packed

  before(() => {
    packed = pack(scratchDirectory())
  })

  it('contains only what users need', () => {
    const folders = ['cli', 'demo'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(ROOT, join(entry.parentPath ?? entry.path, entry.name)).replaceAll('\\', '/')),
    )
    assert.ok(folders.includes('cli/main.js') && folders.includes('demo/main.mjs'))
    for (const file of folders) assert.match(file, /\.m?js$/)
    const expected = [
      ...folders,
      'CHANGELOG.md',
      'LICENSE',
      'MIGRATING.md',
      'README.md',
      'binding.js',
      'docs/architecture.md',
      'docs/format.md',
      'docs/glossary.md',
      'index.d.ts',
      'index.js',
      'lib/abort-signal.js',
      'lib/auto-checkpoint.js',
      'lib/capture.js',
      'lib/coalescing-queue.js',
      'lib/errors.js',
      'lib/lease.js',
      'lib/policy.js',
      'lib/progress.js',
      'lib/timer.js',
      'package.json',
    ]
    assert.deepEqual(packed.main.files.toSorted(), expected.toSorted())
    assert.deepEqual(packed.platform.files.toSorted(), ['README.md', 'package.json', packed.binary])
  })

  it('installs the command, which runs there', async () => {
    const project = scratchDirectory()
    writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'scratch', version: '1.0.0' }))
    run('npm', ['install', '--offline', '--silent', packed.main.tarball, packed.platform.tarball], project)
    const waymark = (...args) => run('npx', ['waymark', ...args], project)

    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    assert.equal(waymark('--version'), `${version}\n`)

    const { location } = await exampleStore()
    const listed = waymark('ls', location)
    for (const session of SESSIONS) assert.ok(listed.includes(session), listed)

    const shown = waymark('demo')
    assert.equal(shown.includes('\u001b'), false)
    assert.match(shown, /tasks finished +301 of 301$/m)
    assert.match(shown, /finished, checkpointed and lost +0 tasks$/m)
  })

  for (const kind of ['module', 'commonjs']) {
    it(`installs into a TypeScript project of type ${kind}, compiles and runs there`, () => {
      const project = scratchDirectory()
      writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'scratch', version: '1.0.0', type: kind }))
      run('npm', ['install', '--offline', '--silent', packed.main.tarball, packed.platform.tarball], project)
      mkdirSync(join(project, 'node_modules/@types'))
      symlinkSync(join(ROOT, 'node_modules/@types/node'), join(project, 'node_modules/@types/node'))

      writeFileSync(join(project, 'main.ts'), `import { CheckpointStore } from 'waymark'\n${PROGRAM}`)
      const compilerOptions = {
        module: 'NodeNext',
        strict: true,
        target: 'ES2022',
        lib: ['ESNext'],
        types: ['node'],
        outDir: 'out',
      }
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
      run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', project], project)
      assert.equal(run(process.execPath, ['out/main.js'], project), '{"from":"the tarball"}\n')
    })
  }
})
