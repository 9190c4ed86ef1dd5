import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { jsonDocumentOf } from '../support/cli-output.mjs'
import { COMMAND, CONCURRENT, environment, waymark } from '../support/command.mjs'
import { contentsOfStore, copyOfStore } from '../support/example-store.mjs'
import { makeSession, makeTree } from '../support/sessions.mjs'
import { checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'

/** How each session is damaged; every one has a document, a task tree, a result, an agent and three checkpoints. */
const DAMAGES = {
  'all bad': ({ paths }) => paths.forEach((path) => truncateSync(path, 50)),
  "it's newest": ({ paths }) => truncateSync(paths[2], 50),
  '-oldest': ({ paths }) => truncateSync(paths[0], 50),
  'the result': ({ folder }) => writeFileSync(join(folder, 'results', 'task-0.json'), '{'),
  'the tree': ({ folder }) => writeFileSync(join(folder, 'task-tree.json'), '{'),
  'of an agent': ({ agent }) => truncateSync(agent, 50),
}

describe('a damaged session', CONCURRENT, () => {
  let location
  const ids = {}
  const paths = {}

  before(async () => {
    location = scratchDirectory()
    const store = await openStore(location)
    for (const id of [...Object.keys(DAMAGES), 'foreign']) {
      const session = makeSession(id)
      await store.saveSession(session)
      await store.saveTaskTree(id, makeTree())
      await store.saveTaskResult(id, 'task-0', { ok: true })
      const made = [
        await checkpointOf(store, session),
        await checkpointOf(store, session),
        await checkpointOf(store, session),
      ]
      const { path } = await store.agent(id, 'writer').save({ iteration: 1 })
      await store.agent(id, 'writer').save({ iteration: 2 })
      ids[id] = made.map(({ checkpointId }) => checkpointId)
      paths[id] = made.map((each) => each.path)
      DAMAGES[id]?.({ folder: join(location, id), paths: paths[id], agent: path })
    }
    await store.close()
  })

  /** Runs a command line of a message unchanged. */
  const runLine = (line, cwd) =>
    spawnSync('bash', ['-c', `waymark() { "$NODE" "$COMMAND" "$@"; }; ${line}`], {
      cwd,
      env: environment({ NODE: process.execPath, COMMAND }),
      encoding: 'utf8',
    })

  for (const [id, verb] of Object.entries({
    "it's newest": 'recover',
    '-oldest': 'rm',
    'the tree': 'recover',
    'of an agent': undefined,
    'the result': undefined,
    'all bad': undefined,
  })) {
    it(`is reported by verify with a command that repairs it, if there is one: ${id}`, async () => {
      const copy = copyOfStore(location)
      const args = ['verify', '--store', copy, '--', id]
      const { code, stdout } = await waymark(args)
      assert.equal(code, 1)
      const [, advised] = /^ +(waymark .*) (?:restores|removes) /m.exec(stdout) ?? []
      assert.equal(advised?.split(' ')[1], verb, stdout)
      if (verb === undefined) {
        assert.match(stdout, /from a copy|nothing has to be done/)
        return
      }
      const { status, stderr } = runLine(
        `${advised.replace(' -- ', ' --yes -- ')}${advised.includes(' -- ') ? '' : ' --yes'}`,
        copy,
      )
      assert.equal(status, 0, `${advised}: ${stderr}`)
      assert.equal((await waymark(args)).code, 0, 'the session is whole afterwards')
    })
  }

  it('is reported by show with a command that shows the previous checkpoint', async () => {
    const { code, stderr } = await waymark(['show', "it's newest", location])
    assert.equal(code, 1)
    const [, advised] = /\. (waymark show .*) shows/.exec(stderr)
    const shown = runLine(advised, location)
    assert.equal(shown.status, 0, stderr)
    assert.ok(shown.stdout.includes(ids["it's newest"][1]), shown.stdout)
  })

  it('keeps the order of its other checkpoints, whatever the file names are', async () => {
    const copy = copyOfStore(location)
    const folder = join(copy, 'foreign', 'checkpoints')
    const [oldest, middle, newest] = ids.foreign
    // A file that was copied in by hand is the newest checkpoint of the store.
    copyFileSync(join(folder, `${oldest}.json`), join(folder, 'backup.json'))
    const listed = async () =>
      jsonDocumentOf(await waymark(['ls', 'foreign', copy, '--json'])).checkpoints.map(({ id }) => id)
    assert.deepEqual(await listed(), ['backup', newest, middle, oldest])
    writeFileSync(join(folder, 'junk.json'), 'junk')
    utimesSync(join(folder, 'junk.json'), new Date(), new Date(Date.now() + 60_000))
    assert.deepEqual(await listed(), ['junk', 'backup', newest, middle, oldest])
    const untouched = contentsOfStore(copy)
    const { stderr } = await waymark(['recover', 'foreign', copy])
    assert.match(stderr, /Checkpoint junk, which is damaged, .*skipped.*Checkpoint backup \(.*will be restored/s)
    assert.deepEqual(contentsOfStore(copy), untouched)
    assert.equal(jsonDocumentOf(await waymark(['recover', 'foreign', copy, '--yes', '--json'])).checkpointId, 'backup')
  })

  it(
    'is distinguished from one without read permission',
    { skip: process.getuid?.() !== 0 && 'only root can run a command as another user' },
    async () => {
      const copy = copyOfStore(location)
      const files = ['-R', 'a+rwX', join(copy, '..')]
      assert.equal(spawnSync('chmod', files).status, 0)
      chmodSync(join(copy, 'foreign', 'checkpoints', `${ids.foreign[2]}.json`), 0o600)
      const asNobody = (args) =>
        spawnSync(process.execPath, [COMMAND, ...args, '--store', copy], {
          uid: 65_534,
          env: environment(),
          encoding: 'utf8',
        })
      const verified = asNobody(['verify', 'foreign'])
      assert.equal(verified.status, 1, verified.stderr)
      assert.match(verified.stdout, /1 unreadable.*as the user that owns them/s)
      assert.doesNotMatch(verified.stdout, /damaged|waymark (?:recover|rm)/)
      assert.match(asNobody(['ls', 'foreign']).stdout, /unreadable/)
      const recovered = asNobody(['recover', 'foreign', '--yes'])
      assert.equal(recovered.status, 1)
      assert.match(recovered.stderr, /Permission denied.*as the user that owns the store/)
      // A session without read permission does not affect the others.
      chmodSync(join(copy, 'foreign'), 0o700)
      assert.match(asNobody(['ls']).stdout, /^foreign +unreadable/m)
      const all = asNobody(['verify'])
      assert.equal(all.status, 1)
      assert.match(all.stdout, /foreign.*1 unreadable.*sessions are not whole/s)
      const stats = asNobody(['stats'])
      assert.equal(stats.status, 1)
      assert.match(stats.stdout, /the result/)
      assert.match(stats.stderr, /foreign is not counted.*Permission denied/)
    },
  )
})
