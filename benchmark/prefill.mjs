// Fills schemas of a PostgreSQL server: a session is made by the contender, and its rows are copied by the server, with
// other ids in them. Everything else in a copy is what the contender wrote. Checksums are of the first one's ids: copies are
// listed, but never read.

import { query, quoted } from '../scripts/postgres-wire.mjs'
import { start } from './measure.mjs'

/** The source of the copies. All names have the same length, so that no offset changes. */
const FIRST = sessionOf(0)
const PATIENCE_MS = 600_000

/** The checkpoints in each session before it is copied, and the tasks in each checkpoint. */
export const EACH = 20
export const TASKS = 10

export function sessionOf(number) {
  return `session-${String(number).padStart(6, '0')}`
}

/** Session after session of our own. */
export async function fillOurs(location, sessions) {
  await first('waymark', location)
  await copy(location, sessions, {
    sessions: { id: SESSION },
    documents: { session: SESSION },
    checkpoints: { session: SESSION, id: OUR_ID, head: head(SESSION) },
  })
}

/** Our own again, but all copies are in one session. */
export async function fillOne(location, checkpoints) {
  await first('waymark', location)
  await copy(location, checkpoints / EACH, { checkpoints: { id: OUR_ID, head: head('session') } })
}

/** Thread after thread of LangGraph's saver. */
export async function fillTheirs(name, location, sessions) {
  await first(name, location)
  await copy(location, sessions, {
    checkpoints: {
      thread_id: SESSION,
      checkpoint_id: theirId('checkpoint_id'),
      parent_checkpoint_id: theirId('parent_checkpoint_id'),
      checkpoint: `jsonb_set(checkpoint, '{id}', to_jsonb(${theirId('checkpoint_id')}))`,
    },
    checkpoint_blobs: { thread_id: SESSION },
  })
}

async function first(name, location) {
  const maker = await start(name, { location, options: { maxConnections: 1 } })
  await maker.ask('fill', { count: EACH, tasks: TASKS, session: FIRST })
  if (name === 'waymark') await maker.ask('saveSession', { tasks: TASKS, session: FIRST })
  await maker.stop()
}

// In these, `copy` is the number of a copy; all else are columns of what is copied. Of ours, several may have been made in one
// millisecond, and have nothing else in their ids that could tell them apart.
const SESSION = `'session-' || lpad(copy::text, 6, '0')`
const OUR_ID = `left(id, -6) || lpad(to_hex(row_number() OVER ()), 6, '0')`
const theirId = (column) => `left(${column}, -12) || lpad(to_hex(copy), 12, '0')`
const head = (session) =>
  `convert_to(replace(replace(convert_from(head, 'UTF8'), id, ${OUR_ID}), session, ${session}), 'UTF8')`

/** Copies all rows of these tables until there are so many of each; `changed` has the columns that differ. */
async function copy(location, count, tables) {
  const url = new URL(location)
  const schema = url.searchParams.get('schema')
  const ask = async (sql) => (await query(location, sql, { timeoutMs: PATIENCE_MS })).rows
  for (const [table, changed] of Object.entries(tables)) {
    const columns = await ask(
      `SELECT column_name FROM information_schema.columns
      WHERE table_schema = '${schema}' AND table_name = '${table}' ORDER BY ordinal_position`,
    )
    const values = columns.map(([column]) => changed[column] ?? quoted(column))
    const name = `${quoted(schema)}.${quoted(table)}`
    await ask(`INSERT INTO ${name} SELECT ${values.join(', ')} FROM ${name}, generate_series(1, ${count - 1}) AS copy`)
  }
  // The server would have done this by itself for a table of this size.
  for (const table of Object.keys(tables)) await ask(`VACUUM (ANALYZE) ${quoted(schema)}.${quoted(table)}`)
}
