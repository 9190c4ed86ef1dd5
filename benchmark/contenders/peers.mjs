// Alternatives behind a common interface: save() resolves once the checkpoint would survive a
// power cut, latest() reads the newest one back.

import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, unlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'

export const PEERS = [
  { name: 'langgraph-checkpoint-sqlite', open: openLangGraph },
  { name: 'node:sqlite', open: openNodeSqlite },
  { name: 'lmdb', open: openLmdb },
  { name: 'classic-level', open: openClassicLevel },
  { name: 'write-file-atomic', open: openWriteFileAtomic },
]

// The saver never drops a checkpoint of a living thread (it has deleteThread and nothing finer), so `keep` is
// not honoured and the database grows. That spares it the deletions which the other peers pay for.
async function openLangGraph(directory) {
  requireNodeFor('better-sqlite3')
  const { SqliteSaver } = await load('@langchain/langgraph-checkpoint-sqlite')
  const { uuid6 } = await load('@langchain/langgraph-checkpoint')
  await mkdir(directory, { recursive: true })
  const saver = SqliteSaver.fromConnString(join(directory, 'langgraph.db'))
  // setup() turns WAL on, but better-sqlite3 is compiled with synchronous=NORMAL for WAL, which syncs nothing at
  // a commit. With FULL the saver gives the same promise as the other peers.
  saver.setup()
  saver.db.pragma('synchronous = FULL')
  requireDurable(saver.db.pragma('journal_mode', { simple: true }), saver.db.pragma('synchronous', { simple: true }))
  const sqlite = saver.db.prepare('SELECT sqlite_version() AS version').get().version

  return {
    version: `${versionOf('@langchain/langgraph-checkpoint-sqlite')} (better-sqlite3 ${versionOf(
      'better-sqlite3',
    )}, SQLite ${sqlite})`,
    ...threadsOf(saver, uuid6),
    async close() {
      saver.db.close()
    },
  }
}

/** Drives one of LangGraph's savers as a graph does whose state is all new in each step. */
export function threadsOf(
  saver,
  uuid6,
  channelsOf = ({ session, agentStates, contextStore }) => ({ session, agentStates, contextStore }),
) {
  const threads = new Map()
  return {
    async save(sessionId, state) {
      const thread = threads.get(sessionId) ?? { step: 0, config: threadConfig(sessionId) }
      const step = thread.step + 1
      const channels = channelsOf(state)
      const versions = Object.fromEntries(Object.keys(channels).map((channel) => [channel, step]))
      const checkpoint = {
        v: 4,
        id: uuid6(step),
        ts: new Date().toISOString(),
        channel_values: channels,
        channel_versions: versions,
        versions_seen: {},
      }
      const metadata = { source: 'loop', step, parents: {} }
      // The next checkpoint names this one as its parent, as a graph run does.
      threads.set(sessionId, { step, config: await saver.put(thread.config, checkpoint, metadata, versions) })
    },
    async latest(sessionId) {
      return (await saver.get(threadConfig(sessionId)))?.channel_values
    },
  }
}

function threadConfig(sessionId) {
  return { configurable: { thread_id: sessionId, checkpoint_ns: '' } }
}

// Synchronous: the event loop stands still until the commit is on disk (so does the saver above).
async function openNodeSqlite(directory, { keep }) {
  const { DatabaseSync } = await load('node:sqlite')
  await mkdir(directory, { recursive: true })
  const db = new DatabaseSync(join(directory, 'node.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  const pragma = (name) => Object.values(db.prepare(`PRAGMA ${name}`).get())[0]
  requireDurable(pragma('journal_mode'), pragma('synchronous'))
  db.exec(
    'CREATE TABLE IF NOT EXISTS checkpoints (session TEXT NOT NULL, id INTEGER NOT NULL, json TEXT NOT NULL, ' +
      'PRIMARY KEY (session, id))',
  )
  const insert = db.prepare('INSERT INTO checkpoints (session, id, json) VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM checkpoints WHERE session = ? AND id = ?')
  const list = db.prepare('SELECT id FROM checkpoints WHERE session = ? ORDER BY id')
  const newest = db.prepare('SELECT json FROM checkpoints WHERE session = ? ORDER BY id DESC LIMIT 1')
  const held = newHeld(keep, async (sessionId) => list.all(sessionId).map((row) => row.id))

  return {
    version: `SQLite ${process.versions.sqlite}`,
    async save(sessionId, state) {
      const json = JSON.stringify(state)
      const { id, dropped } = await held.add(sessionId)
      db.exec('BEGIN IMMEDIATE')
      try {
        // The deletion goes first, so that the new row can take over the freed pages.
        for (const old of dropped) remove.run(sessionId, old)
        insert.run(sessionId, id, json)
        db.exec('COMMIT')
      } catch (error) {
        db.exec('ROLLBACK')
        throw error
      }
    },
    async latest(sessionId) {
      const row = newest.get(sessionId)
      return row && JSON.parse(row.json)
    },
    async close() {
      db.close()
    },
  }
}

async function openLmdb(directory, { keep }) {
  const { open } = await load('lmdb')
  await mkdir(directory, { recursive: true })
  // noSubdir is said outright because lmdb otherwise takes a path with a dot in it for a file.
  const db = open({ path: directory, noSubdir: false })
  const numbers = (sessionId) => Array.from(db.getKeys(lmdbRange(sessionId)), (key) => key[1])
  const held = newHeld(keep, async (sessionId) => numbers(sessionId))

  return {
    version: versionOf('lmdb'),
    async save(sessionId, state) {
      const { id, dropped } = await held.add(sessionId)
      // Writes of one turn of the event loop share a transaction.
      const writes = dropped.map((old) => db.remove([sessionId, old]))
      writes.push(db.put([sessionId, id], state))
      // A write promises the commit only; `flushed` promises the disk, but never rejects. So both are awaited.
      await Promise.all([...writes, db.flushed])
    },
    async latest(sessionId) {
      const { start, end } = lmdbRange(sessionId)
      const [entry] = db.getRange({ start: end, end: start, reverse: true, limit: 1 })
      return entry?.value
    },
    close: () => db.close(),
  }
}

function lmdbRange(sessionId) {
  return { start: [sessionId, 0], end: [sessionId, Number.MAX_SAFE_INTEGER] }
}

const DIGITS = 16

async function openClassicLevel(directory, { keep }) {
  const { ClassicLevel } = await load('classic-level')
  const db = new ClassicLevel(directory, { valueEncoding: 'json' })
  await db.open()
  const numbers = async (sessionId) =>
    (await db.keys(levelRange(sessionId)).all()).map((key) => Number(key.slice(-DIGITS)))
  const held = newHeld(keep, numbers)

  return {
    version: versionOf('classic-level'),
    async save(sessionId, state) {
      const { id, dropped } = await held.add(sessionId)
      const batch = dropped.map((old) => ({ type: 'del', key: levelKey(sessionId, old) }))
      batch.push({ type: 'put', key: levelKey(sessionId, id), value: state })
      await db.batch(batch, { sync: true })
    },
    async latest(sessionId) {
      const [value] = await db.values({ ...levelRange(sessionId), reverse: true, limit: 1 }).all()
      return value
    },
    close: () => db.close(),
  }
}

// Keys sort as text, hence the fixed width.
function levelKey(sessionId, id) {
  return `${sessionId}\0${String(id).padStart(DIGITS, '0')}`
}

function levelRange(sessionId) {
  return { gte: levelKey(sessionId, 0), lte: levelKey(sessionId, Number.MAX_SAFE_INTEGER) }
}

// It syncs the file before the rename, but not the directory after it: a power cut can take the rename back, and
// then the checkpoint is gone. It promises less than the other peers, and saves a sync by it.
async function openWriteFileAtomic(directory, { keep }) {
  const { default: writeFileAtomic } = await load('write-file-atomic')
  await mkdir(directory, { recursive: true })
  // The prefix keeps a session called '..' inside the directory.
  const folderOf = (sessionId) => join(directory, `s-${encodeURIComponent(sessionId)}`)
  const fileOf = (sessionId, id) => join(folderOf(sessionId), `${id}.json`)
  const numbers = async (sessionId) => {
    const names = await readdir(folderOf(sessionId)).catch(emptyIfMissing)
    const ids = names.map((name) => /^(\d+)\.json$/.exec(name)).filter(Boolean)
    return ids.map((match) => Number(match[1])).toSorted((a, b) => a - b)
  }
  const held = newHeld(keep, async (sessionId) => {
    await mkdir(folderOf(sessionId), { recursive: true })
    return numbers(sessionId)
  })

  return {
    version: versionOf('write-file-atomic'),
    async save(sessionId, state) {
      const json = JSON.stringify(state)
      const { id, dropped } = await held.add(sessionId)
      await writeFileAtomic(fileOf(sessionId, id), json)
      for (const old of dropped) await unlink(fileOf(sessionId, old))
    },
    async latest(sessionId) {
      const id = (await numbers(sessionId)).at(-1)
      return id === undefined ? undefined : JSON.parse(await readFile(fileOf(sessionId, id), 'utf8'))
    },
    async close() {},
  }
}

function emptyIfMissing(error) {
  if (error.code === 'ENOENT') return []
  throw error
}

// The numbers of the checkpoints each session holds, oldest first: found in the store once for each session, then
// kept in memory, so that a save need not ask the store what to drop. A save that fails leaves its number behind,
// which is good enough for a benchmark that stops at the first error.
function newHeld(keep, find) {
  if (!(keep >= 1)) throw new RangeError(`keep must be at least 1, not ${keep}`)
  const sessions = new Map()
  return {
    async add(sessionId) {
      if (!sessions.has(sessionId)) sessions.set(sessionId, find(sessionId))
      const ids = await sessions.get(sessionId)
      const id = (ids.at(-1) ?? 0) + 1
      ids.push(id)
      return { id, dropped: ids.splice(0, Math.max(0, ids.length - keep)) }
    },
  }
}

const SYNCHRONOUS_FULL = 2

function requireDurable(journalMode, synchronous) {
  if (journalMode === 'wal' && synchronous === SYNCHRONOUS_FULL) return
  throw new Error(`wanted WAL and synchronous=FULL, got ${journalMode} and ${synchronous}`)
}

export async function load(name) {
  try {
    return await import(name)
  } catch (error) {
    const [reason] = error.message.split('\n')
    throw new Error(`${name} is not available on Node ${process.version}: ${reason}`, { cause: error })
  }
}

// better-sqlite3 13 does not fail to load on Node 20, it takes the whole process down with a segmentation fault.
function requireNodeFor(name) {
  const { version, engines } = manifestOf(name)
  const least = Number(/^>=\s*(\d+)/.exec(engines?.node)?.[1] ?? 0)
  if (Number.parseInt(process.versions.node, 10) >= least) return
  throw new Error(`${name} ${version} is not available on Node ${process.version}: it needs ${engines.node}`)
}

export function versionOf(name) {
  return manifestOf(name).version
}

// Read from the disk because `exports` hides package.json in some of these packages.
function manifestOf(name) {
  const folders = createRequire(import.meta.url).resolve.paths(name)
  const file = folders.map((folder) => join(folder, name, 'package.json')).find((path) => existsSync(path))
  if (!file) throw new Error(`${name} is not installed`)
  return JSON.parse(readFileSync(file, 'utf8'))
}
