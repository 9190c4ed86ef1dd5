import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { query, quoted } from '../../../scripts/postgres-wire.mjs'
import '../../support/postgres-servers.mjs'
import { runNode } from '../../support/processes.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { CheckpointStore, checkpointOf, newSchema, openStore } from '../../support/stores.mjs'

const schemaOf = (location) => new URL(location).searchParams.get('schema')

describe('a schema opened by many stores at once', () => {
  it('is created once and used by all', async () => {
    for (let round = 0; round < 5; round += 1) {
      const location = newSchema()
      const source = `
        const stores = Array.from({ length: 20 }, () => new CheckpointStore(${JSON.stringify(location)}, { maxConnections: 2 }))
        await Promise.all(stores.map((store) => store.initialize()))
        const saved = await Promise.all(stores.map((store, n) => store.saveTaskResult('s', process.argv[1] + n, n)))
        for (const { success, error } of saved) if (!success) throw new Error(error)
      `
      const runs = await Promise.all(['a', 'b'].map((name) => runNode(source, { args: [name] })))
      for (const { code, stderr } of runs) assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
      const store = await openStore(location)
      assert.equal((await store.getSessionStorageStats('s')).resultCount, 40)
      await store.close()
    }
  })
})

describe('a schema', () => {
  it('is named but not touched by the constructor', async () => {
    const location = newSchema()
    const store = new CheckpointStore(location)
    assert.match(store.getBaseDir(), new RegExp(schemaOf(location)))
    const { rows } = await query(location, `SELECT 1 FROM pg_namespace WHERE nspname = '${schemaOf(location)}'`)
    assert.deepEqual(rows, [])
  })

  it('is not created if it must exist', async () => {
    const location = newSchema()
    const store = new CheckpointStore(location, { mustExist: true })
    const message = `There is no store at ${store.getBaseDir()}`
    await assert.rejects(store.initialize(), { code: 'WAYMARK_NOT_FOUND', message })
    const { rows } = await query(location, `SELECT 1 FROM pg_namespace WHERE nspname = '${schemaOf(location)}'`)
    assert.deepEqual(rows, [])
    await (await openStore(location)).close()
    await store.initialize()
    await store.close()
  })

  it('may have a name with SQL syntax and upper case', async () => {
    const location = new URL(newSchema())
    const prefix = schemaOf(location.href)
    for (const name of [`${prefix}_select`, `${prefix}_User`, `${prefix}_USER`, prefix.padEnd(63, 'z')]) {
      location.searchParams.set('schema', name)
      const store = await openStore(location.href)
      const { checkpointId } = await checkpointOf(store, makeSession('s'))
      assert.equal((await store.getLatestCheckpoint('s')).id, checkpointId)
      await store.close()
    }
  })

  it('of a newer version is rejected and unchanged', async () => {
    const location = newSchema()
    const store = await openStore(location)
    await store.saveSession(makeSession('s'))
    await store.close()
    const meta = `${quoted(schemaOf(location))}.meta`
    const { rows } = await query(location, `SELECT version FROM ${meta}; UPDATE ${meta} SET version = version + 1`)
    await assert.rejects(store.initialize(), { code: 'WAYMARK_NEWER_VERSION', message: /newer version/ })
    await assert.rejects(openStore(location), { code: 'WAYMARK_NEWER_VERSION' })
    const { rows: now } = await query(location, `SELECT version FROM ${meta}`)
    assert.deepEqual(now, [[String(Number(rows[0][0]) + 1)]])
    await query(location, `UPDATE ${meta} SET version = version - 1`)
    await store.initialize()
    assert.deepEqual(await store.listSessions(), ['s'])
    await store.close()
  })

  it('with foreign tables is rejected and unchanged', async () => {
    const location = newSchema()
    const schema = quoted(schemaOf(location))
    await query(location, `CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.sessions (mine text)`)
    await assert.rejects(openStore(location), { code: 'WAYMARK_CORRUPT', message: /schema of its own/ })
    const named = `SELECT table_name FROM information_schema.tables WHERE table_schema = '${schemaOf(location)}'`
    assert.deepEqual((await query(location, named)).rows, [['sessions']])
  })

  it('that was dropped under an open store is reported until the store is opened again', async () => {
    const location = newSchema()
    const store = await openStore(location)
    await store.saveSession(makeSession('s'))
    await query(location, `DROP SCHEMA ${quoted(schemaOf(location))} CASCADE`)
    const { success, code } = await store.saveSession(makeSession('s'))
    assert.deepEqual([success, code], [false, 'WAYMARK_IO'])
    await store.initialize()
    assert.deepEqual(await store.listSessions(), [])
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    await store.close()
  })
})

describe('a process with an open store', () => {
  it('ends by itself when its work is done', async () => {
    const begun = performance.now()
    const { code, stdout, stderr } = await runNode(`
      const store = new CheckpointStore(${JSON.stringify(newSchema())})
      await store.initialize()
      await store.saveTaskResult('s', 't', 1)
      console.log(await store.loadTaskResult('s', 't'))
    `)
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '1\n', stderr: '' })
    assert.ok(performance.now() - begun < 5000)
  })

  it('waits for calls that are not awaited', async () => {
    const location = newSchema()
    await runNode(`
      const store = new CheckpointStore(${JSON.stringify(location)})
      await store.initialize()
      store.saveTaskResult('s', 't', { kept: true })
    `)
    const store = await openStore(location)
    assert.deepEqual(await store.loadTaskResult('s', 't'), { kept: true })
    await store.close()
  })
})
