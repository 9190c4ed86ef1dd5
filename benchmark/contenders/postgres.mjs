// The alternative for checkpoints on a PostgreSQL server.

import { load, threadsOf, versionOf } from './peers.mjs'

// Like its sibling on SQLite it removes nothing, whatever `keep` says.
export async function openLangGraphOnPostgres(url, { maxConnections }) {
  const { PostgresSaver } = await load('@langchain/langgraph-checkpoint-postgres')
  const { uuid6 } = await load('@langchain/langgraph-checkpoint')
  const { Pool } = await load('pg')
  const location = new URL(url)
  const schema = location.searchParams.get('schema')
  location.searchParams.delete('schema')
  const pool = new Pool({ connectionString: location.href, max: maxConnections })
  const saver = new PostgresSaver(pool, undefined, { schema })
  await saver.setup()
  // Each channel is a statement, and a wait, of its own. With everything in one it is at its quickest.
  const { save, latest } = threadsOf(saver, uuid6, (state) => ({ state }))

  return {
    version: `${versionOf('@langchain/langgraph-checkpoint-postgres')} (pg ${versionOf('pg')})`,
    save,
    latest: async (sessionId) => (await latest(sessionId))?.state,
    close: () => saver.end(),
  }
}
