// A PostgreSQL server with many checkpoints: against LangGraph's saver, and against the same store with few checkpoints.
// It starts a server, or uses DATABASE_URL. WAYMARK_BENCH_SESSIONS sets the number of sessions, for a quick run.

import { query, quoted } from '../../scripts/postgres-wire.mjs'
import { startPostgres } from '../../scripts/postgres.mjs'
import { alternate, isReached, line, start, summary } from '../measure.mjs'
import { EACH, TASKS, fillOne, fillOurs, fillTheirs, sessionOf } from '../prefill.mjs'

const PEER = 'langgraph-checkpoint-postgres'

/** The settings of a small server. */
const SETTINGS = {
  shared_buffers: '256MB',
  max_wal_size: '4GB',
  max_connections: 200,
  fsync: 'on',
  synchronous_commit: 'on',
}

/** Connections of each side. More of them do not make the peer faster. */
const CONNECTIONS = 10
const KEEP = 3
const ROUNDS = 9

const SESSIONS = Number(process.env.WAYMARK_BENCH_SESSIONS ?? 10_000)
const FEW_SESSIONS = 100
const [MANY, FEW] = [SESSIONS * EACH, FEW_SESSIONS * EACH]
const PAGE = 20
const IN_USE = 20
const DROP_MS = 600_000

/** The number of concurrent calls, and the calls of each in a round. */
const AGAINST_PEER = [
  writers(1, 60, 100),
  writers(8, 15, 100),
  writers(64, 4, 100),
  readers(1, 20, 100),
  readers(8, 4, 100),
  writers(1, 60, 10),
  writers(8, 15, 10),
  writers(64, 4, 10),
]

const OF_SAVES = ['saves', 'ms a save, median', 'ms a save, 95th percentile']
const OF_READS = ['reads of the newest']

function writers(count, times, tasks) {
  return { what: several(count, 'writer'), command: 'writers', details: { writers: count, times, tasks }, tasks }
}

function readers(count, times, tasks) {
  return { what: several(count, 'reader'), command: 'readers', details: { readers: count, times }, tasks }
}

function several(count, what) {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

const counted = (number) => number.toLocaleString('en')

function namesOf({ what, command, tasks }, { version = '', peerVersion = '' } = {}) {
  const server = `PostgreSQL ${version}`.trimEnd()
  const peer = `${PEER} ${peerVersion}`.trimEnd()
  const where = `${what} of ${tasks} tasks, ${CONNECTIONS} connections, ${server} with ${counted(MANY)} checkpoints`
  return (command === 'writers' ? OF_SAVES : OF_READS).map((figure) => `${where}: ${figure}, ours against ${peer}`)
}

const AMONG = `a page of ${PAGE} of listCheckpointInfo on PostgreSQL, among ${counted(MANY)} checkpoints of ${counted(SESSIONS)} sessions against among ${counted(FEW)} of ${FEW_SESSIONS}`
const WITHIN = `a page of ${PAGE} of listCheckpointInfo on PostgreSQL, of a session with ${counted(MANY)} checkpoints against of one with ${counted(FEW)}`
const BYTES = `bytes on the disk of PostgreSQL for one of ${counted(MANY)} checkpoints of ${TASKS} tasks, indexes included, ours against ${PEER}`
const OVERVIEW = `sessionsInfo() on PostgreSQL, ${counted(SESSIONS)} sessions with ${EACH} checkpoints each, against ${FEW_SESSIONS} such sessions`

export async function postgres() {
  let server
  try {
    server = await open()
  } catch (error) {
    const names = [...AGAINST_PEER.flatMap((each) => namesOf(each)), BYTES, AMONG, WITHIN, OVERVIEW]
    return names.map((name) => ({ name, missing: reasonOf(error) }))
  }
  try {
    const [failed] = await Promise.all([
      fillTheirs(PEER, server.location('theirs'), SESSIONS).then(
        () => undefined,
        (error) => error,
      ),
      fillOurs(server.location('many'), SESSIONS),
      fillOurs(server.location('few'), FEW_SESSIONS),
      fillOne(server.location('long'), MANY),
      fillOne(server.location('short'), FEW),
    ])
    // Otherwise pending pages would be written during the first measurement. A role may lack the right to this.
    await server.ask('CHECKPOINT').catch(() => {})
    const againstPeer = failed
      ? [...AGAINST_PEER.flatMap((each) => namesOf(each, server)), BYTES].map((name) => ({
          name,
          missing: reasonOf(failed),
        }))
      : [await bytesLine(server), ...(await linesAgainstPeer(server))]
    return [...againstPeer, ...(await amongOthers(server)), ...(await withinOne(server))]
  } finally {
    await server.end()
  }
}

function reasonOf(error) {
  return error.message.trim().replaceAll(/\s+/g, ' ')
}

/** A server with durable commits, and schemas on it. */
async function open() {
  const given = process.env.DATABASE_URL
  const own = given ? undefined : await startPostgres({ settings: SETTINGS })
  const url = given ?? own.url
  const prefix = `waymark_bench_${Date.now().toString(36)}_`
  const ask = async (sql) => (await query(url, sql, { timeoutMs: DROP_MS })).rows
  const server = {
    ask,
    location(name) {
      const location = new URL(url)
      location.searchParams.set('schema', `${prefix}${name}`)
      return location.href
    },
    /** A server that was already running is left unchanged. */
    async end() {
      if (own) return own.stop()
      const schemas = await ask(`SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '${prefix}')`)
      for (const [schema] of schemas) await ask(`DROP SCHEMA ${quoted(schema)} CASCADE`)
    },
  }
  try {
    for (const setting of ['fsync', 'synchronous_commit']) {
      const [[value]] = await ask(`SHOW ${setting}`)
      if (value === 'off') throw new Error(`the server has ${setting} off, and promises nothing`)
    }
    const [[version]] = await ask('SHOW server_version')
    return { ...server, version: version.split(' ')[0] }
  } catch (error) {
    await own?.stop()
    throw error
  }
}

/** Measured before any other data are stored. */
async function bytesLine(server) {
  const bytesOf = async (name, tables) => {
    const schema = new URL(server.location(name)).searchParams.get('schema')
    const sizes = tables.map((table) => `pg_total_relation_size('${quoted(schema)}.${table}')`)
    const [[bytes]] = await server.ask(`SELECT ${sizes.join(' + ')}`)
    return [Number(bytes) / MANY]
  }
  const samples = {
    ours: await bytesOf('many', ['checkpoints']),
    theirs: await bytesOf('theirs', ['checkpoints', 'checkpoint_blobs', 'checkpoint_writes']),
  }
  return line(BYTES, samples, {}, undefined, 'bytes')
}

async function linesAgainstPeer(server) {
  const options = { keep: KEEP, maxConnections: CONNECTIONS }
  const ours = await start('waymark', { location: server.location('many'), options })
  const theirs = await start(PEER, { location: server.location('theirs'), options })
  const lines = []
  for (const each of AGAINST_PEER) {
    const { command, details, tasks } = each
    const sides = { ours: () => ours.ask(command, details), theirs: () => theirs.ask(command, details) }
    const samples = await alternate(ROUNDS, sides, { warmUp: 2 })
    for (const side of [ours, theirs]) {
      if (await side.ask('isIntact', { tasks, session: 'at-once-0' })) continue
      throw new Error(`${side.name} returned another state`)
    }
    const [rate, ...waits] = namesOf(each, { version: server.version, peerVersion: theirs.version })
    const at = { command, ...details }
    const waitLines = waits.map((name, which) => waitLine(name, samples, ['median', 'most'][which]))
    for (const one of [rateLine(rate, samples), ...waitLines]) lines.push(Object.assign(one, { at }))
  }
  await Promise.all([ours.stop(), theirs.stop()])
  return lines
}

function rateLine(name, samples) {
  const [ours, theirs] = [samples.ours, samples.theirs].map((of) => summary(of.map(({ perSecond }) => perSecond)))
  const ratio = ours.median / theirs.median
  const target = { atLeast: 1 }
  return { name, unit: 'per second', ours, theirs, ratio, target, reached: isReached(ratio, target) }
}

function waitLine(name, samples, which) {
  const [ours, theirs] = [samples.ours, samples.theirs].map((of) => of.map((sample) => sample[which]))
  return line(name, { ours, theirs }, { atMost: 1 })
}

/** The effect of checkpoints in other sessions. */
async function amongOthers(server) {
  const [many, few] = [await reader(server, 'many'), await reader(server, 'few')]
  const pages = { ours: pageOf(many, SESSIONS, EACH), theirs: pageOf(few, FEW_SESSIONS, EACH) }
  const among = line(AMONG, await alternate(100, pages, { warmUp: IN_USE }), { atMost: 1.2 })
  const overviews = { ours: overviewOf(many, SESSIONS), theirs: overviewOf(few, FEW_SESSIONS) }
  const overview = line(OVERVIEW, await alternate(3, overviews, { warmUp: 1 }))
  await Promise.all([many.stop(), few.stop()])
  return [among, overview]
}

/** The effect of checkpoints in the same session. */
async function withinOne(server) {
  const [long, short] = [await reader(server, 'long'), await reader(server, 'short')]
  const samples = await alternate(20, { ours: pageOf(long, 1, MANY), theirs: pageOf(short, 1, FEW) })
  await Promise.all([long.stop(), short.stop()])
  return [line(WITHIN, samples, {}, 'no goal: `total` has to be counted')]
}

function reader(server, name) {
  return start('waymark', { location: server.location(name), options: { maxConnections: CONNECTIONS } })
}

/**
 * Pages of some sessions in turn, spread over the table. They are in use: pages that are not read for long are on the disk if
 * the table is larger than memory.
 */
function pageOf(side, sessions, total) {
  let turn = 0
  return async () => {
    turn += 1
    const session = sessionOf(Math.floor(((turn % IN_USE) * sessions) / IN_USE))
    const page = await side.ask('listInfo', { session, limit: PAGE })
    if (page.total !== total || page.shown !== PAGE || page.damaged > 0) {
      throw new Error(`listCheckpointInfo() shows ${page.shown} of ${page.total}, and ${page.damaged} damaged`)
    }
    return page.ms
  }
}

function overviewOf(side, sessions) {
  return async () => {
    const { ms, total } = await side.ask('sessionsInfo')
    // Those of the writers are there too.
    if (total < sessions) throw new Error(`sessionsInfo() shows ${total} of ${sessions}`)
    return ms
  }
}
