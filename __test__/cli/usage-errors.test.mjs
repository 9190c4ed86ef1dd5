import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { CONCURRENT, waymark } from '../support/command.mjs'
import { assertRefused } from '../support/cli-output.mjs'
import { readOnlyStore } from '../support/read-only-store.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { scratchDirectory } from '../support/stores.mjs'

/** Valid arguments for every command that takes a store. */
const ON_A_STORE = {
  ls: [],
  log: ['s'],
  show: ['s'],
  diff: ['s/a', 's/b'],
  stats: [],
  watch: [],
  verify: [],
  recover: ['s', '--yes'],
  restore: ['s/a', '--yes'],
  fork: ['s/a', 't'],
  label: ['s/a', 'name'],
  pin: ['s/a'],
  prune: ['--keep-last', '1', '--yes'],
  convert: ['zstd', 's', '--yes'],
  export: ['s', 'file.waymark'],
  rm: ['s', '--yes'],
}

describe('a usage error', CONCURRENT, () => {
  let location
  let ids

  readOnlyStore((store) => {
    ;({ location, ids } = store)
  })

  const refused = async (args, what, options) => {
    assertRefused(await waymark([...args, '--store', location]), what, options)
  }

  it('is reported for a mistyped URL without any part of it, and creates nothing', async () => {
    const cwd = scratchDirectory()
    const url = 'postgres://me:s3cret@host/db'
    for (const mistyped of [
      `"${url}"`,
      'postgres//me:s3cret@host/db',
      'me:s3cret@host/db',
      ` ${url}`,
      'mysql://me:s3cret@host',
    ]) {
      for (const words of [
        ['ls', mistyped],
        ['ls', '--store', mistyped],
        ['show', mistyped],
        ['show', 's', mistyped],
        ['show', mistyped, location],
        ['copy', location, mistyped, '--yes'],
        ['ls', 's', location, mistyped],
      ]) {
        const { code, stdout, stderr } = await waymark(words, { cwd })
        assert.equal(code, 2, `${words}: ${stderr}`)
        assert.doesNotMatch(stdout + stderr, /cret/, `${words}`)
      }
    }
    assert.deepEqual(readdirSync(cwd), [])
  })

  it('is reported for an unknown command, with suggestions', async () => {
    assertRefused(await waymark(['lss']), /no command "lss".*\bls\b/, { next: /waymark --help/ })
    assertRefused(await waymark(['verfiy']), /no command "verfiy".*\bverify\b/, { next: /waymark --help/ })
    assertRefused(await waymark(['frobnicate']), /no command "frobnicate"/, { next: /waymark --help/ })
    assertRefused(await waymark(['constructor']), /no command "constructor"/, { next: /waymark --help/ })
    assertRefused(await waymark(['../main']), /no command/, { next: /waymark --help/ })
    assertRefused(await waymark(['\u001b[31mred']), /no command/, { next: /waymark --help/ })
  })

  it('is reported without a command: the overview goes to the error stream', async () => {
    const { code, stdout, stderr } = await waymark([])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /waymark <command>/)
    assert.match(stderr, /\bls\b/)
  })

  for (const [name, args] of Object.entries(ON_A_STORE)) {
    it(`is reported by ${name} for an unknown option`, async () => {
      await refused([name, ...args, '--frobnicate'], /--frobnicate/, { next: new RegExp(`waymark ${name} --help`) })
    })

    it(`is reported by ${name} for a missing store, and none is created`, async () => {
      const nowhere = scratchDirectory()
      const outcome = await waymark([name, ...args, '--store', join(nowhere, 'absent')], { cwd: nowhere })
      assertRefused(outcome, /no store at .*absent/, { next: /Check|Give/ })
      assert.deepEqual(readdirSync(nowhere), [])
    })
  }

  it('is reported for a misspelled option, with a suggestion', async () => {
    await refused(['ls', '--jsn'], /--jsn.*--json/, { next: /waymark ls --help/ })
    await refused(['prune', '--keep-lst', '3'], /--keep-lst.*--keep-last/, { next: /waymark prune --help/ })
  })

  it('is reported for a missing database, and none is created', async () => {
    const nowhere = scratchDirectory()
    const outcome = await waymark(['ls', `sqlite:${join(nowhere, 'absent.db')}`])
    assertRefused(outcome, /no store at .*absent/, { next: /Check|Give/ })
    assert.deepEqual(readdirSync(nowhere), [])
  })

  it('is reported for a missing default store, and none is created', async () => {
    const home = scratchDirectory()
    const outcome = await waymark(['ls'], { env: { HOME: home, USERPROFILE: home } })
    assertRefused(outcome, /no store at .*\.meshseeks/, { next: /--store|WAYMARK_STORE/ })
    assert.deepEqual(readdirSync(home), [])
  })

  it('is reported for missing and surplus arguments', async () => {
    for (const name of [
      'log',
      'show',
      'diff',
      'recover',
      'restore',
      'fork',
      'label',
      'pin',
      'convert',
      'export',
      'import',
      'copy',
      'rm',
    ])
      assertRefused(await waymark([name]), new RegExp(`${name} needs`), { next: new RegExp(`waymark ${name} --help`) })
    assertRefused(await waymark(['log', 'a', 'b', 'c']), /"c"/, { next: /waymark log --help/ })
    assertRefused(await waymark(['log', 'a', location, '--store', location]), /two locations/, {
      next: /leave one out/,
    })
  })

  const ON_A_SESSION = {
    ls: (session) => [session],
    log: (session) => [session],
    show: (session) => [session],
    verify: (session) => [session],
    stats: (session) => [session],
    watch: (session) => [session],
    recover: (session) => [session, '--yes'],
    convert: (session) => ['zstd', session, '--yes'],
    export: (session) => [session, 'file.waymark'],
    prune: (session) => [session, '--keep-last', '1', '--yes'],
    rm: (session) => [session, '--yes'],
  }

  for (const [name, argsFor] of Object.entries(ON_A_SESSION)) {
    it(`is reported by ${name} for an unknown session`, async () => {
      await refused([name, ...argsFor('nowhere')], /no session.*nowhere/i, { next: /waymark ls/ })
    })

    it(`is reported by ${name} for an ambiguous session prefix, with the candidates`, async () => {
      await refused([name, ...argsFor('nightly')], /nightly/, { next: /nightly-build.*nightly-report/s })
    })
  }

  it('is reported for a misspelled session, with a suggestion', async () => {
    await refused(['show', 'nightly-biuld'], /nightly-biuld.*nightly-build/s, { next: /waymark ls/ })
  })

  for (const [name, args] of Object.entries({
    show: [],
    restore: ['--yes'],
    fork: ['new'],
    label: ['name'],
    pin: [],
  })) {
    it(`is reported by ${name} for an unknown or ambiguous checkpoint`, async () => {
      const next = { next: /waymark ls nightly-build/ }
      await refused([name, 'nightly-build/cp-nowhere', ...args], /cp-nowhere/, next)
      await refused([name, 'nightly-build/latest~99', ...args], /only 8 checkpoints/, next)
      await refused([name, 'nightly-build/latest~x', ...args], /latest~x/, next)
      await refused([name, 'nightly-build/cp-', ...args], /cp-/, { next: new RegExp(ids.build.at(-1)) })
      await refused([name, 'nowhere/latest', ...args], /nowhere/, { next: /waymark ls/ })
    })
  }

  it('is reported for an invalid value', async () => {
    await refused(['prune', '--keep-last', 'many', '--yes'], /many/)
    await refused(['prune', '--keep-last', '-1', '--yes'], /keep-last|-1/)
    await refused(['prune', '--max-age', 'soon', '--yes'], /soon/)
    await refused(['prune', '--max-bytes', '5 parsecs', '--yes'], /5 parsecs/)
    await refused(['show', 'nightly-build', '--depth', 'deep'], /deep/)
    await refused(['watch', '--interval', 'never'], /never/)
    await refused(['convert', 'brotli', 'nightly-build', '--yes'], /brotli/, { next: /zstd/ })
    await refused(['ls', '--json=yes'], /--json/)
    await refused(['fork', 'nightly-build/green', 'a/../b'], /a\/\.\.\/b/, { next: /another id/ })
    await refused(['label', 'nightly-build/green', ''], /label/i, { next: /1 to 200 bytes/ })
  })

  it('is reported for a reserved label', async () => {
    await refused(['label', 'nightly-build/green', 'latest'], /latest is reserved/, { next: /another label/ })
    await refused(['label', 'nightly-build/green', 'latest~3'], /latest~3 is reserved/, { next: /another label/ })
  })

  it('says where an argument belongs', async () => {
    await refused(['show', '-x'], /no option -x/, { next: /after --/ })
    await refused(['prune', '--max-age', '0s', '--yes'], /--max-age is a duration/)
    await refused(['export', 'nightly-build', location], /is a directory/, { next: /before the location/ })
    const nowhere = scratchDirectory()
    const at = (...args) => waymark(args, { cwd: nowhere, env: { HOME: nowhere, USERPROFILE: nowhere } })
    mkdirSync(join(nowhere, 'my sessions'))
    assertRefused(await at('ls', 'my sessions'), /no store/, { next: /write '\.\/my sessions'/ })
    assertRefused(await at('ls', location, 'nightly-build'), /no store/, { next: /location comes last/ })
    assertRefused(await at('import', nowhere, './new'), /is a directory/, { next: /file comes first/ })
    assert.deepEqual(readdirSync(nowhere), ['my sessions'])
  })

  it('is reported for a target that exists, which stays unchanged', async () => {
    const directory = scratchDirectory()
    const file = join(directory, 'build.waymark')
    const exported = await waymark(['export', 'nightly-build', file, '--store', location])
    assert.equal(exported.code, 0, exported.stderr)
    const exportedOnce = snapshotOf(directory)
    await refused(['export', 'nightly-report', file], /build\.waymark/, { next: /another/ })
    assert.deepEqual(snapshotOf(directory), exportedOnce)
    await refused(['import', file], /nightly-build/, { next: /--as|another/, isLongWork: true })
    await refused(['fork', 'nightly-build/green', 'what-if'], /what-if/, { next: /another/ })
  })

  it('is reported for an import file that is missing, and a failure for one that is no export file', async () => {
    await refused(['import', join(scratchDirectory(), 'absent.waymark')], /absent\.waymark/, { next: /waymark export/ })
    const outcome = await waymark(['import', join(location, 'owned', 'session.json'), '--store', location])
    assert.equal(outcome.code, 1, outcome.stderr)
    assert.equal(outcome.stdout, '')
    assert.match(outcome.stderr, /^waymark: .*session\.json/)
    assert.ok(existsSync(join(location, 'owned', 'session.json')))
  })

  it('is reported by completion for a missing or unknown shell', async () => {
    assertRefused(await waymark(['completion']), /completion needs/, { next: /waymark completion --help/ })
    assertRefused(await waymark(['completion', 'tcsh']), /tcsh/, { next: /bash/ })
  })
})
