// On a PostgreSQL server with many checkpoints in it: against LangGraph's saver, and against ourselves with few of them.
// The server is our own, or that of DATABASE_URL. WAYMARK_BENCH_SESSIONS is how many sessions there are, for a quick try.

import { query, quoted } from '../../scripts/postgres-wire.mjs'
import { startPostgres } from '../../scripts/postgres.mjs'
import { alternate, isReached, line, start, summary } from '../measure.mjs'
import { EACH, fillOne, fillOurs, fillTheirs, sessionOf } from '../prefill.mjs'

const PEER = 'langgraph-checkpoint-postgres'

/** As somebody would set up a small server; both sides get the same number of connections. */
const SETTINGS = { shared_buffers: '256MB', max_wal_size: '4GB', fsync: 'on', synchronous_commit: 'on' }
const CONNECTIONS = 10
const KEEP = 3

const SESSIONS = Number(process.env.WAYMARK_BENCH_SESSIONS ?? 10_000)
const FEW_SESSIONS = 100
const PAGE = 20

/** How many write at once, and how often each of them does in a round. */
const WRITERS = [
  { count: 1, times: 60 },
  { count: 8, times: 15 },
  { count: 64, times: 4 },
]
const READERS = [
  { count: 1, times: 20 },
  { count: 8, times: 4 },
]
const SIZES = [100, 10]

const counted = (number) => number.toLocaleString('en')
const rows = (sessions) => counted(sessions * EACH)
const all = `${rows(SESSIONS)} checkpoints`
const several = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`

const NAMES = {
  writers: (count, tasks) =>
    `${several(count, 'writer')} of ${tasks} tasks on PostgreSQL with ${all}, ${CONNECTIONS} connections`,
  readers: (count) =>
    `the newest of 100 tasks, ${several(count, 'reader')}, on PostgreSQL with ${all}, ${CONNECTIONS} connections`,
  page: `a page of ${PAGE} of listCheckpointInfo on PostgreSQL, with ${all} in ${counted(SESSIONS)} sessions against with ${rows(FEW_SESSIONS)} in ${FEW_SESSIONS}`,
  pageOfOne: `a page of ${PAGE} of listCheckpointInfo on PostgreSQL, of a session with ${all} against of one with ${rows(FEW_SESSIONS)}`,
  overview: `sessionsInfo() on PostgreSQL, ${counted(SESSIONS)} sessions with ${EACH} checkpoints each against ${FEW_SESSIONS}`,
}
const AGAINST_PEER = [
  ...SIZES.flatMap((tasks) => WRITERS.map(({ count }) => NAMES.writers(count, tasks))),
  ...READERS.map(({ count }) => NAMES.readers(count)),
]

export async function postgres() {
  let server
  try {
    server = await open()
  } catch (error) {
    const names = [...AGAINST_PEER, NAMES.page, NAMES.pageOfOne, NAMES.overview]
    return names.map((name) => ({ name, missing: error.message.trim() }))
  }
  try {
    // Ours and theirs are filled at the same time, and are not touched by anything else until they are compared.
    const ours = fillOurs(server.place('many'), SESSIONS)
    const theirs = fillTheirs(PEER, server.place('theirs'), SESSIONS).catch((error) => error)
    const [, failed] = await Promise.all([ours, theirs])
    const lines = failed
      ? AGAINST_PEER.map((name) => ({ name: `${name}: ours against ${PEER}`, missing: failed.message }))
      : await againstPeer(server)
    return [...lines, ...(await againstFew(server)), ...(await pageOfOne(server))]
  } finally {
    await server.end()
  }
}

/** A server that loses nothing, and places in it. */
async function open() {
  const given = process.env.DATABASE_URL
  const own = given ? undefined : await startPostgres({ settings: SETTINGS })
  const url = given ?? own.url
  const prefix = `waymark_bench_${Date.now().toString(36)}_`
  const end = async () => {
    if (own) return own.stop()
    const { rows: schemas } = await query(
      url,
      `SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '${prefix}')`,
    )
    for (const [schema] of schemas) await query(url, `DROP SCHEMA ${quoted(schema)} CASCADE`, { timeoutMs: 600_000 })
  }
  try {
    for (const setting of ['fsync', 'synchronous_commit']) {
      const [[value]] = (await query(url, `SHOW ${setting}`)).rows
      if (value === 'off') throw new Error(`the server has ${setting} off, and promises nothing`)
    }
    return {
      version: (await query(url, 'SHOW server_version')).rows[0][0].split(' ')[0],
      place(name) {
        const place = new URL(url)
        place.searchParams.set('schema', `${prefix}${name}`)
        return place.href
      },
      end,
    }
  } catch (error) {
    await own?.stop()
    throw error
  }
}

async function againstPeer(server) {
  const options = { keep: KEEP, maxConnections: CONNECTIONS }
  const ours = await start('waymark', { place: server.place('many'), options })
  const theirs = await start(PEER, { place: server.place('theirs'), options })
  const against = `ours against ${PEER} ${theirs.version}, PostgreSQL ${server.version}`
  const sides = (command, details) => ({
    ours: () => ours.ask(command, details),
    theirs: () => theirs.ask(command, details),
  })
  const lines = []
  for (const tasks of SIZES) {
    for (const { count, times } of WRITERS) {
      const samples = await alternate(9, sides('writers', { tasks, writers: count, times }), { warmUp: 2 })
      const name = `${NAMES.writers(count, tasks)}: ${against}`
      lines.push(rateLine(name, samples, 'median'))
      if (tasks === SIZES[0]) {
        lines.push(waitLine(`${name}: how long a save takes, median`, samples, 'median'))
        lines.push(waitLine(`${name}: how long a save takes, 95th percentile`, samples, 'most'))
      }
    }
    for (const side of [ours, theirs]) {
      if (!(await side.ask('isIntact', { tasks, session: 'at-once-0' })))
        throw new Error(`${side.name} gave back something else`)
    }
    if (tasks !== SIZES[0]) continue
    for (const { count, times } of READERS) {
      const samples = await alternate(9, sides('readers', { readers: count, times }), { warmUp: 1 })
      lines.push(rateLine(`${NAMES.readers(count)}: ${against}`, samples))
    }
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

function waitLine(name, { ours, theirs }, which) {
  const of = (samples) => samples.map((sample) => sample[which])
  return line(name, { ours: of(ours), theirs: of(theirs) }, { atMost: 1 })
}

/** Whether it matters how many there are in other sessions. */
async function againstFew(server) {
  await fillOurs(server.place('few'), FEW_SESSIONS)
  const [many, few] = [await reader(server, 'many'), await reader(server, 'few')]
  const pages = await alternate(100, {
    ours: pageOf(many, SESSIONS, EACH),
    theirs: pageOf(few, FEW_SESSIONS, EACH),
  })
  const overview = (side, least) => async () => {
    const { ms, total } = await side.ask('sessionsInfo')
    if (total < least) throw new Error(`sessionsInfo() shows ${total} of ${least}`)
    return ms
  }
  const overviews = await alternate(
    3,
    { ours: overview(many, SESSIONS), theirs: overview(few, FEW_SESSIONS) },
    { warmUp: 1 },
  )
  await Promise.all([many.stop(), few.stop()])
  return [line(NAMES.page, pages, { atMost: 1.2 }), line(NAMES.overview, overviews)]
}

/** Whether it matters how many there are in the session itself. */
async function pageOfOne(server) {
  await fillOne(server.place('long'), SESSIONS * EACH)
  await fillOne(server.place('short'), FEW_SESSIONS * EACH)
  const [long, short] = [await reader(server, 'long'), await reader(server, 'short')]
  const samples = await alternate(20, {
    ours: pageOf(long, 1, SESSIONS * EACH),
    theirs: pageOf(short, 1, FEW_SESSIONS * EACH),
  })
  await Promise.all([long.stop(), short.stop()])
  return [line(NAMES.pageOfOne, samples, {}, 'no goal: `total` is counted')]
}

function reader(server, name) {
  return start('waymark', { place: server.place(name), options: { maxConnections: CONNECTIONS } })
}

/** A page of one session after the other, each far from the last. */
function pageOf(side, sessions, total) {
  let turn = 0
  return async () => {
    turn += 1
    const page = await side.ask('listInfo', { session: sessionOf((turn * 37) % sessions), limit: PAGE })
    if (page.total !== total || page.shown !== PAGE || page.damaged > 0) {
      throw new Error(`listCheckpointInfo() shows ${page.shown} of ${page.total}, and ${page.damaged} damaged`)
    }
    return page.ms
  }
}
