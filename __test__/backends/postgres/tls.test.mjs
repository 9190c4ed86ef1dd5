import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { query } from '../../../scripts/postgres-wire.mjs'
import { lacksOpenssl, newAuthority } from '../../support/certificates.mjs'
import { ownServer, suiteServer } from '../../support/postgres-servers.mjs'
import { PASSWORDS, assertHidesPassword, urlFor } from '../../support/secrets.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { CheckpointStore, newSchema, openStore } from '../../support/stores.mjs'

const [PASSWORD] = PASSWORDS

describe('TLS', { skip: ownServer.skip || lacksOpenssl }, () => {
  const authority = newAuthority('Those who sign')
  const stranger = newAuthority('Another authority')
  const server = suiteServer(() => {
    const { key, certificate } = authority.issue('localhost')
    const access = ['host all postgres 127.0.0.1/32 trust', 'hostssl all guest 127.0.0.1/32 scram-sha-256']
    const files = { 'server.key': key, 'server.crt': certificate, 'pg_hba.conf': `${access.join('\n')}\n` }
    return { files, settings: { ssl: 'on' } }
  })

  /** A new schema, opened through TLS. */
  function secured(options, { host = 'localhost', url = server().url } = {}) {
    const location = new URL(newSchema(url))
    location.hostname = host
    for (const [name, value] of Object.entries(options)) location.searchParams.set(name, value)
    return location.href
  }

  /** Whether the server reports the connections of a role as encrypted. */
  async function areEncrypted(role) {
    const sql = `SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '${role}' AND application_name <> ''`
    return (await query(server().url, sql)).rows.map(([ssl]) => ssl)
  }

  async function refused(location, expected) {
    const store = new CheckpointStore(location, { timeoutMs: 2000 })
    await assert.rejects(store.initialize(), (error) => {
      assert.equal(error.code, 'WAYMARK_IO')
      assert.match(error.message, expected)
      assertHidesPassword(error, PASSWORD)
      return true
    })
  }

  const good = () => ({ sslmode: 'verify-full', sslrootcert: authority.certificate })

  it('is used on request', async () => {
    for (const options of [{ sslmode: 'require' }, good()]) {
      const store = await openStore(secured(options))
      assert.equal((await store.saveSession(makeSession('s'))).success, true)
      assert.deepEqual(new Set(await areEncrypted('postgres')), new Set(['t']))
      await store.close()
    }
  })

  it('accepts any host name unless names are verified', async () => {
    const store = await openStore(secured({ sslmode: 'require' }, { host: '127.0.0.1' }))
    assert.deepEqual(await store.listSessions(), [])
    await store.close()
  })

  it('rejects a certificate of another host', async () => {
    await refused(secured(good(), { host: '127.0.0.1' }), /certificate/i)
  })

  it('rejects a certificate of another authority', async () => {
    await refused(secured({ sslmode: 'verify-full', sslrootcert: stranger.certificate }), /certificate/i)
  })

  it('rejects an untrusted certificate', async () => {
    await refused(secured({ sslmode: 'verify-full' }), /certificate/i)
  })

  it('names a missing certificate file', async () => {
    const location = secured({ sslmode: 'verify-full', sslrootcert: '/nowhere/ca.crt' })
    await assert.rejects(async () => openStore(location), { message: /\/nowhere\/ca\.crt/ })
  })

  it('protects password authentication', async () => {
    await query(
      server().url,
      `CREATE ROLE guest LOGIN PASSWORD '${PASSWORD}'; GRANT CREATE ON DATABASE postgres TO guest`,
    )
    const url = urlFor(server().url, 'guest', PASSWORD)
    const store = await openStore(secured(good(), { url }))
    assert.equal((await store.saveSession(makeSession('s'))).success, true)
    assert.deepEqual(new Set(await areEncrypted('guest')), new Set(['t']))
    assertHidesPassword(store.getBaseDir(), PASSWORD)
    await store.close()
    await refused(secured(good(), { url: urlFor(server().url, 'guest', 'wrong') }), /password/)
    await refused(secured({ sslmode: 'disable' }, { url }), /no encryption|pg_hba/)
  })
})
