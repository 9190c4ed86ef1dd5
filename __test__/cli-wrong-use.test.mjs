import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'

import { assertRefused } from './support/cli-output.mjs'
import { CONCURRENT, waymark } from './support/command.mjs'
import { contentsOfStore, exampleStore } from './support/example-store.mjs'
import { snapshotOf } from './support/snapshot.mjs'
import { scratchDirectory } from './support/stores.mjs'

/** What every command that takes a store is called with, so that only the store can be wrong. */
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

describe('wrong use', CONCURRENT, () => {
  let location
  let ids
  let snapshot

  before(async () => {
    ;({ location, ids } = await exampleStore())
    snapshot = contentsOfStore(location)
  })

  after(() => assert.deepEqual(contentsOfStore(location), snapshot, 'nothing has changed'))

  const refused = async (args, what, options) => {
    assertRefused(await waymark([...args, '--store', location]), what, options)
  }

  it('names what to write instead of a mistyped URL, makes nothing, and shows no part of it', async () => {
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

  it('is to ask for a command that there is not, and those that are near are named', async () => {
    assertRefused(await waymark(['lss']), /no command "lss".*\bls\b/, { next: /waymark --help/ })
    assertRefused(await waymark(['verfiy']), /no command "verfiy".*\bverify\b/, { next: /waymark --help/ })
    assertRefused(await waymark(['frobnicate']), /no command "frobnicate"/, { next: /waymark --help/ })
    assertRefused(await waymark(['constructor']), /no command "constructor"/, { next: /waymark --help/ })
    assertRefused(await waymark(['../main']), /no command/, { next: /waymark --help/ })
    assertRefused(await waymark(['\u001b[31mred']), /no command/, { next: /waymark --help/ })
  })

  it('is to ask for nothing: what there is goes to the error stream', async () => {
    const { code, stdout, stderr } = await waymark([])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /waymark <command>/)
    assert.match(stderr, /\bls\b/)
  })

  for (const [name, args] of Object.entries(ON_A_STORE)) {
    it(`is to give ${name} an option that it does not have`, async () => {
      await refused([name, ...args, '--frobnicate'], /--frobnicate/, { next: new RegExp(`waymark ${name} --help`) })
    })

    it(`is to point ${name} to a place where no store is, and none is made`, async () => {
      const nowhere = scratchDirectory()
      const outcome = await waymark([name, ...args, '--store', join(nowhere, 'absent')], { cwd: nowhere })
      assertRefused(outcome, /no store at .*absent/, { next: /Check|Name/ })
      assert.deepEqual(readdirSync(nowhere), [])
    })
  }

  it('is to misspell an option, and the one that is near is named', async () => {
    await refused(['ls', '--jsn'], /--jsn.*--json/, { next: /waymark ls --help/ })
    await refused(['prune', '--keep-lst', '3'], /--keep-lst.*--keep-last/, { next: /waymark prune --help/ })
  })

  it('is to point to a database that is not there, and none is made', async () => {
    const nowhere = scratchDirectory()
    const outcome = await waymark(['ls', `sqlite:${join(nowhere, 'absent.db')}`])
    assertRefused(outcome, /no store at .*absent/, { next: /Check|Name/ })
    assert.deepEqual(readdirSync(nowhere), [])
  })

  it('is to look at the default place before there is one, and none is made', async () => {
    const home = scratchDirectory()
    const outcome = await waymark(['ls'], { env: { HOME: home, USERPROFILE: home } })
    assertRefused(outcome, /no store at .*\.meshseeks/, { next: /--store|WAYMARK_STORE/ })
    assert.deepEqual(readdirSync(home), [])
  })

  it('is to leave out what a command needs, or to say too much', async () => {
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
    assertRefused(await waymark(['log', 'a', location, '--store', location]), /two places/, { next: /leave one out/ })
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
    it(`is to ask ${name} for a session that there is not`, async () => {
      await refused([name, ...argsFor('nowhere')], /no session.*nowhere/i, { next: /waymark ls/ })
    })

    it(`is to ask ${name} for a session by a beginning of several, and they are named`, async () => {
      await refused([name, ...argsFor('nightly')], /nightly/, { next: /nightly-build.*nightly-report/s })
    })
  }

  it('is to misspell a session, and the one that is near is named', async () => {
    await refused(['show', 'nightly-biuld'], /nightly-biuld.*nightly-build/s, { next: /waymark ls/ })
  })

  for (const [name, args] of Object.entries({
    show: [],
    restore: ['--yes'],
    fork: ['new'],
    label: ['name'],
    pin: [],
  })) {
    it(`is to ask ${name} for a checkpoint that there is not, or for one of several`, async () => {
      const next = { next: /waymark ls nightly-build/ }
      await refused([name, 'nightly-build/cp-nowhere', ...args], /cp-nowhere/, next)
      await refused([name, 'nightly-build/latest~99', ...args], /only 8 checkpoints/, next)
      await refused([name, 'nightly-build/latest~x', ...args], /latest~x/, next)
      await refused([name, 'nightly-build/cp-', ...args], /cp-/, { next: new RegExp(ids.build.at(-1)) })
      await refused([name, 'nowhere/latest', ...args], /nowhere/, { next: /waymark ls/ })
    })
  }

  it('is to give an option a value that it cannot have', async () => {
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

  it('is to give a label that could never be used', async () => {
    await refused(['label', 'nightly-build/green', 'latest'], /latest/, { next: /another label/ })
    await refused(['label', 'nightly-build/green', 'latest~3'], /latest~3/, { next: /another label/ })
  })

  it('is to forget what goes where, and that is said', async () => {
    await refused(['show', '-x'], /no option -x/, { next: /behind --/ })
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

  it('is to write over what is there', async () => {
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

  it('is to import what is not there, or no archive', async () => {
    await refused(['import', join(scratchDirectory(), 'absent.waymark')], /absent\.waymark/, { next: /waymark export/ })
    const outcome = await waymark(['import', join(location, 'owned', 'session.json'), '--store', location])
    assert.equal(outcome.code, 1, outcome.stderr)
    assert.equal(outcome.stdout, '')
    assert.match(outcome.stderr, /^waymark: .*session\.json/)
    assert.ok(existsSync(join(location, 'owned', 'session.json')))
  })

  it('is to name no shell, or one that nobody has heard of, for completion', async () => {
    assertRefused(await waymark(['completion']), /completion needs/, { next: /waymark completion --help/ })
    assertRefused(await waymark(['completion', 'tcsh']), /tcsh/, { next: /bash/ })
  })
})
