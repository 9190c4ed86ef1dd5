import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

import { makeSession, makeTree } from '../support/sessions.mjs'
import {
  OPTIONS,
  checkpointOf,
  durableBackends,
  onEveryBackend,
  openStore,
  scratchDirectory,
} from '../support/stores.mjs'

if (durableBackends.includes('files')) {
  describe('documents of the wrong type', () => {
    const SHAPES = ['[1]', '"text"', '5', 'null', ' [] ']

    async function withFiles() {
      const base = scratchDirectory()
      const store = await openStore(base)
      await store.saveSession(session)
      await store.saveTaskTree('s', makeTree())
      const { checkpointId } = await store.createCheckpoint(session, OPTIONS)
      await store.labelCheckpoint('s', checkpointId, 'label')
      await store.setRetention('s', { keepLast: 5 })
      assert.equal((await store.verifySession('s')).whole, true)
      return { store, checkpointId, write: (name, text) => writeFileSync(join(base, 's', name), text) }
    }

    for (const [name, what] of [
      ['session.json', 'session'],
      ['task-tree.json', 'task tree'],
      ['labels.json', 'document of labels'],
      ['retention.json', 'document of retention'],
    ]) {
      it(`verifySession reports a ${name} without an object`, async () => {
        const { store, write } = await withFiles()
        for (const text of SHAPES) {
          write(name, text)
          const { whole, files } = await store.verifySession('s')
          const report = files.find(({ path }) => path.endsWith(name))
          assert.deepEqual([whole, report.whole, report.code], [false, false, 'WAYMARK_CORRUPT'], text)
          assert.match(report.error, new RegExp(`it holds no JSON object, so it is no ${what}$`))
        }
      })
    }

    it('loadSession and loadTaskTree reject with WAYMARK_CORRUPT', async () => {
      const { store, write } = await withFiles()
      for (const text of SHAPES) {
        write('session.json', text)
        write('task-tree.json', text)
        for (const load of [() => store.loadSession('s'), () => store.loadTaskTree('s')]) {
          await assert.rejects(load, { code: 'WAYMARK_CORRUPT', message: /it holds no JSON object/ })
        }
      }
    })

    it('verifySession reports the session document of another session', async () => {
      const { store, write } = await withFiles()
      write('session.json', JSON.stringify({ ...session, id: 'other' }))
      const { whole, files } = await store.verifySession('s')
      const report = files.find(({ path }) => path.endsWith('session.json'))
      assert.deepEqual([whole, report.whole, report.code], [false, false, 'WAYMARK_CORRUPT'])
      assert.match(report.error, /it is the document of session "other"/)
      // A copied session directory looks like this: it can be loaded, and restoring sets its own id.
      assert.equal((await store.loadSession('s')).id, 'other')
      assert.equal((await store.recoverSession('s')).success, true)
      assert.equal((await store.loadSession('s')).id, 's')
      assert.equal((await store.verifySession('s')).whole, true)
    })

    it('verifySession reports a label that is not text', async () => {
      const { store, checkpointId, write } = await withFiles()
      write('labels.json', JSON.stringify({ [checkpointId]: 5 }))
      const { whole, files } = await store.verifySession('s')
      assert.equal(whole, false)
      assert.match(files.find(({ path }) => path.endsWith('labels.json')).error, /is 5$/)
    })
  })
}

const session = makeSession('s')

describe('verifySession (files)', () => {
  it('names every damaged file', async () => {
    const store = await openStore()
    const tree = await store.saveTaskTree('s', {})
    const result = await store.saveTaskResult('s', 't', 1)
    await store.saveSession(makeSession('s'))
    writeFileSync(tree.path, '{')
    writeFileSync(result.path, Buffer.from([0xff]))
    const report = await store.verifySession('s')
    assert.equal(report.whole, false)
    assert.deepEqual(
      report.files.map((file) => file.whole),
      [true, false, false],
    )
    for (const file of report.files.filter((entry) => !entry.whole)) {
      assert.equal(file.code, 'WAYMARK_CORRUPT')
      assert.ok(file.error.includes(file.path))
    }
  })

  it('accepts another spelling', async () => {
    const store = await openStore()
    const { checkpointId, path } = await checkpointOf(store, makeSession('s', { name: 'Zürich' }))
    writeFileSync(path, readFileSync(path, 'utf8').replace('ü', '\\u00fc'))
    assert.equal((await store.verifyCheckpoint('s', checkpointId)).whole, true)
    assert.equal((await store.verifySession('s')).whole, true)
    assert.equal((await store.getLatestCheckpoint('s')).session.name, 'Zürich')
    assert.equal((await store.recoverSession('s')).success, true)
    rmSync(path)
  })
})

onEveryBackend('verifySession', (open) => {
  it('reports every item of a session as whole', async () => {
    const store = await open()
    await store.saveSession(makeSession('s'))
    await store.saveTaskTree('s', {})
    await store.saveTaskResult('s', 't', 1)
    const made = [
      await checkpointOf(store, makeSession('s')),
      await checkpointOf(store, makeSession('s'), { ...OPTIONS, compress: true }),
    ]
    const report = await store.verifySession('s')
    assert.equal(report.whole, true)
    assert.deepEqual(
      report.checkpoints,
      made.toReversed().map(({ checkpointId: id, path, sizeBytes }) => ({ id, path, sizeBytes, whole: true })),
    )
    assert.equal(report.files.length, 3)
    assert.ok(report.files.every((file) => file.whole))
    assert.deepEqual(await store.verifyCheckpoint('s', made[0].checkpointId), report.checkpoints[1])
    await assert.rejects(store.verifyCheckpoint('s', 'cp-none'), { code: 'WAYMARK_NOT_FOUND' })
    assert.deepEqual(await store.verifySession('unknown'), {
      sessionId: 'unknown',
      whole: true,
      checkpoints: [],
      agentCheckpoints: [],
      files: [],
    })
  })
})
