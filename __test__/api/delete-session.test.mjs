import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { it } from 'node:test'

import { makeAgent, makeSession, makeTask } from '../support/sessions.mjs'
import { OPTIONS, checkpointOf, onEveryBackend } from '../support/stores.mjs'

/** Must not be found anywhere after its session was deleted. */
const SECRET = 'a-secret-of-this-test-alone'

const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

/** A session with one item of each kind; every text stored uncompressed contains the secret. */
async function fill(store, id) {
  const session = makeSession(id, { name: SECRET })
  for (let at = 0; at < 50; at += 1) session.taskTree[`t${at}`] = makeTask(`t${at}`, { prompt: `${SECRET} ${at}` })
  await store.saveSession(session)
  await store.saveSession({ ...session, name: `${SECRET} again` })
  await store.saveTaskTree(id, session.taskTree)
  await store.saveTaskResult(id, 't1', { output: SECRET })
  const ids = []
  for (const encoding of [...ENCODINGS, ...ENCODINGS]) {
    session.taskTree.t1.result = { output: `${SECRET} ${ids.length}` }
    const options = { ...OPTIONS, encoding, label: `${SECRET} ${ids.length}` }
    ids.push((await checkpointOf(store, session, options, { a: makeAgent('a') }, { SECRET })).checkpointId)
  }
  await store.labelCheckpoint(id, ids[0], `${SECRET} later`)
  await store.pinCheckpoint(id, ids[1])
  await store.setRetention(id, { keepLast: 50 })
  await store.agent(id, SECRET).save({ iteration: 1, messages: [{ role: 'user', content: SECRET }] })
  return ids
}

/** Neither memory nor the files of a server can be inspected. */
const hasFiles = (location) => !/^(memory|postgres):/.test(location)

/** All files of a store. */
function filesOf(location) {
  if (!hasFiles(location)) return []
  if (location.startsWith('sqlite:')) {
    const path = location.slice('sqlite:'.length)
    const names = readdirSync(dirname(path)).filter((name) => name.startsWith(basename(path)))
    return names.map((name) => join(dirname(path), name))
  }
  const names = existsSync(location) ? readdirSync(location, { recursive: true }) : []
  return names.map((name) => join(location, name)).filter((path) => statSync(path).isFile())
}

onEveryBackend('deleteSession', (open) => {
  it('leaves no byte of the session, not even in free space of a file', async () => {
    const store = await open({ keepPrevious: 2 })
    await fill(store, 's')
    await checkpointOf(store, makeSession('other'))
    assert.ok(
      !hasFiles(store.getBaseDir()) || filesOf(store.getBaseDir()).some((path) => readFileSync(path).includes(SECRET)),
      'the secret is there to be found',
    )
    const { success } = await store.deleteSession('s')
    assert.equal(success, true)
    for (const path of filesOf(store.getBaseDir())) assert.ok(!readFileSync(path).includes(SECRET), path)
    assert.equal(await store.loadSession('s'), null)
    assert.deepEqual(await store.listSessions(), [])
    assert.deepEqual(await store.listAgents('s'), [])
    assert.equal(await store.getRetention('s'), null)
    assert.equal((await store.getSessionStorageStats('s')).totalSizeBytes, 0)
    assert.equal((await store.listCheckpointInfo('other')).total, 1)
  })

  it('keeps forks whole, whichever checkpoint they began with', async () => {
    const store = await open({ encoding: 'delta' })
    const ids = await fill(store, 's')
    for (const [number, checkpointId] of ids.entries()) {
      await store.forkSession({ sessionId: 's', checkpointId, newSessionId: `fork-${number}` })
    }
    await store.deleteSession('s')
    for (const number of ids.keys()) {
      const id = `fork-${number}`
      assert.equal((await store.verifySession(id)).whole, true)
      const fork = await store.getLatestCheckpoint(id)
      assert.equal(fork.taskTree.t1.result.output, `${SECRET} ${number}`)
      const session = { ...(await store.loadSession(id)), taskTree: await store.loadTaskTree(id) }
      await checkpointOf(store, session, { ...OPTIONS, encoding: 'delta' })
      assert.equal((await store.verifySession(id)).whole, true)
    }
  })

  it('allows a new session under the same id', async () => {
    const store = await open({ encoding: 'delta' })
    await fill(store, 's')
    await store.deleteSession('s')
    await fill(store, 's')
    assert.equal((await store.verifySession('s')).whole, true)
    assert.equal((await store.listCheckpointInfo('s')).total, 8)
  })
})
