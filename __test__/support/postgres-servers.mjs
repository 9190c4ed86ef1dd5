// The server shared by the PostgreSQL tests, and servers for single tests and suites.

import { after, before } from 'node:test'

import { startPostgres } from '../../scripts/postgres.mjs'

if (!process.env.WAYMARK_TEST_DATABASE_URL) throw new Error('Run this with: npm run test:postgres')

/** For tests and suites that need a server of their own. */
export const ownServer = {
  skip: process.env.DATABASE_URL !== undefined && 'DATABASE_URL says which server to use, and no other is started',
}

/** A server for one test. */
export async function serverFor(t, options = undefined) {
  const server = await startPostgres(options)
  t.after(() => server.stop())
  return server
}

/** A server for the suite that this is called in: a function that gives it to its tests. */
export function suiteServer(options = () => undefined) {
  let server
  before(async () => {
    server = await startPostgres(await options())
  })
  after(() => server?.stop())
  return () => server
}
