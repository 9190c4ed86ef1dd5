// Stores that cannot be opened, and their errors.

import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { describe, it } from 'node:test'

import { query, quoted } from '../../../scripts/postgres-wire.mjs'
import { ownServer, serverFor, suiteServer } from '../../support/postgres-servers.mjs'
import { PASSWORDS, assertHidesPassword, urlFor } from '../../support/secrets.mjs'
import { makeSession } from '../../support/sessions.mjs'
import { CheckpointStore, newSchema, openStore } from '../../support/stores.mjs'

const TIMEOUT_MS = 1500
const SLACK_MS = 2000
const SECRET = PASSWORDS[0]

/** Opens a store that must fail in time without showing its password; resolves to the error. */
async function refused(location, expected, password = SECRET) {
  const store = new CheckpointStore(location, { timeoutMs: TIMEOUT_MS })
  assertHidesPassword(store.getBaseDir(), password)
  assertHidesPassword(store, password)
  const begun = performance.now()
  const error = await store.initialize().then(
    () => assert.fail(`${location} was opened`),
    (reason) => reason,
  )
  const ms = performance.now() - begun
  assert.ok(ms < TIMEOUT_MS + SLACK_MS, `${ms} ms`)
  assert.equal(error.code, 'WAYMARK_IO', error.message)
  assert.match(error.message, expected)
  assertHidesPassword(error, password)
  await assert.rejects(store.listSessions(), { code: 'WAYMARK_NOT_INITIALIZED' })
  return error
}

describe('an invalid URL', () => {
  const wrong = {
    'no host': 'postgres://',
    'a port that is none': `postgres://user:${SECRET}@localhost:99999/db`,
    'a port that is no number': `postgres://user:${SECRET}@localhost:port/db`,
    'an option that is not known': `postgres://user:${SECRET}@localhost/db?colour=blue`,
    'a mode of TLS that is not known': `postgres://user:${SECRET}@localhost/db?sslmode=perhaps`,
    'a schema without a name': `postgres://user:${SECRET}@localhost/db?schema=`,
    'a schema whose name PostgreSQL would cut off': `postgres://user:${SECRET}@localhost/db?schema=${'x'.repeat(64)}`,
    'a schema whose name needs quotes': `postgres://user:${SECRET}@localhost/db?schema=it%22s`,
    'a schema with a null character': `postgres://user:${SECRET}@localhost/db?schema=a%00b`,
    'escapes that are none': `postgres://user:${SECRET}%zz@localhost/db`,
    'a password that was not escaped': `postgres://user:${SECRET}@home/and#more@localhost/db`,
  }
  for (const [what, location] of Object.entries(wrong)) {
    it(`is rejected by the constructor: ${what}`, () => {
      assert.throws(
        () => new CheckpointStore(location),
        (error) => {
          assert.equal(error.code, 'WAYMARK_INVALID_ARGUMENT')
          assert.match(error.message, /^baseDir /)
          assertHidesPassword(error, SECRET)
          return true
        },
      )
    })
  }
})

describe('invalid limits', () => {
  for (const name of ['timeoutMs', 'maxConnections']) {
    for (const value of [0, -1, 1.5, NaN, '5', null, {}]) {
      it(`are rejected by the constructor: ${name} ${String(value)}`, () => {
        assert.throws(() => new CheckpointStore(newSchema(), { [name]: value }), {
          code: 'WAYMARK_INVALID_ARGUMENT',
          message: new RegExp(name),
        })
      })
    }
  }
})

describe('an unreachable server', () => {
  it('is named if nothing listens', async () => {
    const error = await refused(`postgres://user:${SECRET}@127.0.0.1:1/db`, /127\.0\.0\.1:1\b/)
    assert.match(error.message, /refused/i)
  })

  it('is named if the host does not exist', async () => {
    await refused(`postgres://user:${SECRET}@nowhere.invalid/db`, /nowhere\.invalid/)
  })

  it('is named if it does not answer', async (t) => {
    const silent = createServer().listen(0, '127.0.0.1')
    t.after(() => silent.close())
    await new Promise((resolve) => silent.once('listening', resolve))
    const sockets = []
    silent.on('connection', (socket) => sockets.push(socket.on('error', () => {})))
    t.after(() => sockets.map((socket) => socket.destroy()))
    await refused(`postgres://user:${SECRET}@127.0.0.1:${silent.address().port}/db`, /127\.0\.0\.1/)
  })

  it('is named if another service answers', async (t) => {
    const other = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    t.after(() => other.close())
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve))
    await refused(`postgres://user:${SECRET}@127.0.0.1:${other.address().port}/db`, /127\.0\.0\.1/)
  })
})

describe('a server that denies access', ownServer, () => {
  const files = {
    'pg_hba.conf': 'host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n',
  }
  const server = suiteServer(() => ({ files }))

  /** A role that may only log in with a password. */
  async function newRole(name, password) {
    const literal = `'${password.replaceAll("'", "''")}'`
    await query(server().url, `CREATE ROLE ${quoted(name)} LOGIN PASSWORD ${literal}`)
  }

  for (const [number, password] of PASSWORDS.entries()) {
    it(`rejects a wrong password and accepts the right one: ${number}`, async () => {
      const role = `role ${number}`
      await newRole(role, password)
      await query(server().url, `GRANT CREATE ON DATABASE postgres TO ${quoted(role)}`)
      await refused(urlFor(server().url, role, `${password}!`), /password authentication failed/, password)
      await refused(urlFor(server().url, role, ''), /password/, password)
      await refused(urlFor(server().url, 'no such role', password), /no such role/, password)
      const location = newSchema(urlFor(server().url, role, password))
      const store = await openStore(location)
      const { path } = await store.saveSession(makeSession('s'))
      assertHidesPassword(path, password)
      assertHidesPassword(store.getBaseDir(), password)
      assertHidesPassword(store, password)
      await query(server().url, `ALTER ROLE ${quoted(role)} NOLOGIN`)
      await store.close()
      const error = await store.initialize().catch((reason) => reason)
      assert.equal(error.code, 'WAYMARK_IO')
      assertHidesPassword(error, password)
    })
  }

  it('the error names a missing database', async () => {
    const missing = new URL(server().url)
    missing.pathname = '/nothing-of-that-name'
    await refused(missing.href, /nothing-of-that-name/)
  })

  it('the error names a schema that may not be created or used', async () => {
    await newRole('guest', SECRET)
    const guest = urlFor(server().url, 'guest', SECRET)
    await refused(newSchema(guest), /permission denied/)
    const own = newSchema(server().url)
    const store = await openStore(own)
    await store.saveSession(makeSession('s'))
    await store.close()
    await refused(urlFor(own, 'guest', SECRET), /permission denied/)
  })

  it('the error says that the server is read-only', async () => {
    const location = newSchema(server().url)
    const store = await openStore(location)
    await store.saveSession(makeSession('s'))
    await query(server().url, 'ALTER DATABASE postgres SET default_transaction_read_only = on')
    try {
      const readOnly = new CheckpointStore(location)
      const error = await readOnly.initialize().then(
        async () => (await readOnly.saveSession(makeSession('s'))).error,
        (reason) => reason.message,
      )
      assert.match(error, /read-only/)
      await readOnly.close()
    } finally {
      await query(server().url, 'BEGIN READ WRITE; ALTER DATABASE postgres RESET ALL; COMMIT')
    }
    await store.close()
  })

  it('the error says that the server has no TLS', async () => {
    for (const mode of ['require', 'verify-full']) {
      const location = new URL(urlFor(server().url, 'guest', SECRET))
      location.searchParams.set('sslmode', mode)
      await refused(location.href, /TLS|SSL/i)
    }
  })
})

describe('a server without free connections', ownServer, () => {
  it('fails calls in time, and serves them when connections are free', async (t) => {
    const server = await serverFor(t, { settings: { max_connections: 5, superuser_reserved_connections: 0 } })
    const busy = await openStore(newSchema(server.url), { maxConnections: 5 })
    const ids = Array.from({ length: 50 }, (_, number) => `t${number}`)
    await Promise.all(ids.map((id) => busy.saveTaskResult('s', id, 1)))
    await refused(newSchema(server.url), /connection/)
    await busy.close()
    const store = await openStore(newSchema(server.url), { maxConnections: 2 })
    await store.close()
  })
})
