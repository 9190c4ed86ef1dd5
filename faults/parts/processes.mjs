// Eight processes write one session while readers read it.

import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { ADDON, CheckpointStore } from '../harness.mjs'

const PROCESSES = 8
const WRITES = 200
const LIMIT = 12

export async function run() {
  const base = mkdtempSync(join(tmpdir(), 'waymark-processes-'))
  const found = []
  const store = new CheckpointStore(base, LIMIT)
  await store.initialize()
  const writing = { isOver: false }
  let reads = 0
  const readers = Array.from({ length: 2 }, async () => {
    while (!writing.isOver) {
      const [session, tree, { damaged }] = await Promise.all([
        store.loadSession('s'),
        store.loadTaskTree('s'),
        store.listCheckpoints('s', 3),
      ])
      reads += 3
      if (session && session.metadata.filler.length !== 3000) found.push('half a session was read')
      if (tree && tree.task.filler.length !== 3000) found.push('half a tree was read')
      found.push(...damaged.map((entry) => entry.error))
    }
  })
  const writers = await Promise.all(Array.from({ length: PROCESSES }, (_, index) => writer(base, index)))
  writing.isOver = true
  await Promise.all(readers).catch((error) => found.push(error.message))
  found.push(...writers.flat())
  const report = await store.verifySession('s')
  if (!report.whole) found.push('the stored data are damaged')
  if (report.checkpoints.length !== LIMIT) found.push(`${report.checkpoints.length} checkpoints are kept`)
  const left = ['', 'checkpoints', 'results']
    .flatMap((part) => readdirSync(join(base, 's', part)))
    .filter((name) => name.endsWith('.tmp'))
  if (left.length > 0) found.push(`left behind: ${left}`)
  await store.close()
  rmSync(base, { recursive: true })
  return [
    {
      what: `${PROCESSES} processes × ${WRITES} writes on one session, readers beside them`,
      tried: `${PROCESSES * WRITES} writes, ${reads} reads`,
      found,
    },
  ]
}

/** Writes from a separate process; resolves to its findings. */
function writer(base, index) {
  const source = `
    const { CheckpointStore } = require(${JSON.stringify(ADDON)})
    const filler = 'x'.repeat(3000)
    const session = { id: 's', name: 'n', checkpointIds: [], metadata: { filler }, taskTree: { task: { id: 'task', filler } } }
    const store = new CheckpointStore(${JSON.stringify(base)}, ${LIMIT})
    const steps = [
      () => store.createCheckpoint(session, {}, {}, { trigger: 'auto', compress: ${index % 2 === 0} }),
      () => store.saveSession(session),
      () => store.saveTaskTree('s', session.taskTree),
      () => store.saveTaskResult('s', 'shared', { index: ${index}, filler }),
    ]
    store.initialize().then(async () => {
      for (let n = 0; n < ${WRITES}; n += 1) {
        const result = await steps[n % steps.length]()
        if (!result.success || result.warnings) console.log(JSON.stringify(result))
      }
    })
  `
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--eval', source], { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    child.stdout.on('data', (chunk) => (said += chunk))
    child.stderr.on('data', (chunk) => (said += chunk))
    child.once('close', (code) =>
      resolve(code === 0 && said === '' ? [] : [`a writer ended with ${code}: ${said.slice(0, 500)}`]),
    )
  })
}
