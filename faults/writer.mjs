// Writes until it is killed, and prints each acknowledgement as a line.
//
//   node writer.mjs <ours|write-file-atomic|rename|sqlite> <directory> <seed> <busy|calm>
//
// `ready`, then `checkpoint <id> <number>`, `restore <id>`, `result <key> <number>`. A busy writer has several calls under
// way, and their syncs help each other; a calm one pauses after each, so that nothing is durable but for its own syncs.

import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

const [kind, directory, seed, pace] = process.argv.slice(2)
const PAUSE_MS = 25
const FILLER = 'x'.repeat(4000)
const KEYS = 5

const say = (line) => process.stdout.write(`${line}\n`)

const writers = {
  async ours() {
    const { CheckpointStore } = await import(pathToFileURL(process.env.WAYMARK_ADDON).href)
    const store = new CheckpointStore(directory, 6)
    await store.initialize()
    let number = Number(seed)
    const newest = []

    const checkpoint = async () => {
      number += 1
      const taskTree = { task: { id: 'task', number, filler: FILLER } }
      const session = { id: 's', name: 'n', checkpointIds: [], taskTree, metadata: { number } }
      const mine = number
      const options = { trigger: 'auto', includeContext: true, compress: mine % 3 === 0 }
      const result = await store.createCheckpoint(session, {}, { number }, options)
      if (!result.success) throw new Error(result.error)
      newest.push(result.checkpointId)
      say(`checkpoint ${result.checkpointId} ${mine}`)
    }
    const restore = async () => {
      const checkpointId = newest.at(-1)
      if (!checkpointId) return sleep(1)
      const result = await store.restoreCheckpoint({ checkpointId, sessionId: 's', validateChecksum: true })
      // By then it may have been pruned.
      if (!result.success && result.code !== 'WAYMARK_NOT_FOUND') throw new Error(result.error)
      if (result.success) say(`restore ${checkpointId}`)
      return undefined
    }
    const save = async (key) => {
      number += 1
      const mine = number
      const result = await store.saveTaskResult('s', `key-${key}`, { number: mine, filler: FILLER })
      if (!result.success) throw new Error(result.error)
      say(`result ${key} ${mine}`)
    }
    const forever = async (step) => {
      for (;;) await step()
    }
    say('ready')
    let key = 0
    if (pace === 'calm') {
      for (;;) {
        for (const step of [checkpoint, restore, () => save((key = (key + 1) % KEYS))]) {
          await step()
          await sleep(PAUSE_MS)
        }
      }
    }
    await Promise.all([forever(checkpoint), forever(restore), forever(() => save((key = (key + 1) % KEYS)))])
  },

  async 'write-file-atomic'() {
    const { default: writeFileAtomic } = await import('write-file-atomic')
    await keyed((path, text) => writeFileAtomic(path, text))
  },

  async rename() {
    await keyed(async (path, text) => {
      await writeFile(`${path}.tmp`, text)
      await rename(`${path}.tmp`, path)
    })
  },

  async sqlite() {
    const { DatabaseSync } = await import('node:sqlite')
    const database = new DatabaseSync(join(directory, 'store.db'))
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT)')
    const put = database.prepare(
      'INSERT INTO state VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    )
    await keyed((path, text) => {
      put.run(path, text)
      return new Promise((resolve) => setImmediate(resolve))
    })
  },
}

/** Replaces a few files in turn until the process is killed. */
async function keyed(put) {
  say('ready')
  for (let number = Number(seed) + 1; ; number += 1) {
    const key = number % KEYS
    await put(join(directory, `key-${key}.json`), JSON.stringify({ number, filler: FILLER }))
    say(`result ${key} ${number}`)
  }
}

await writers[kind]()
