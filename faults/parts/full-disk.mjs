// A full disk, a limit on file sizes, and directories that are read-only, missing or removed during writes.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { ADDON, CheckpointStore, listed } from '../harness.mjs'
import { canMount, skipped } from '../machine.mjs'
import { weakenedAddon } from '../weakened.mjs'

const FILLER = 'x'.repeat(8000)
const newSession = (number) => ({
  id: 's',
  name: 'n',
  checkpointIds: [],
  taskTree: { task: { id: 'task', number, filler: FILLER } },
  metadata: { number },
})
const OPTIONS = { trigger: 'auto', includeContext: false, compress: false }

export async function run() {
  const refusal = canMount()
  const rows = refusal ? [skipped('a full disk', refusal)] : await fullDisks()
  rows.push(await limitedFileSize(ADDON), {
    ...(await limitedFileSize(weakenedAddon(), 'short-write')),
    mustFind: true,
  })
  rows.push(await readOnlyDirectory(), await removedInMidFlight())
  return rows
}

async function fullDisks() {
  const disk = mkdtempSync(join(tmpdir(), 'waymark-full-'))
  const found = []
  let refused = 0
  for (const size of ['size=64k', 'size=100k', 'size=1m,nr_inodes=16', 'size=1m,nr_inodes=20']) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', disk])
    try {
      refused += await fill(join(disk, 'store'), found)
    } finally {
      execFileSync('umount', [disk])
    }
  }
  rmSync(disk, { recursive: true })
  if (refused < 20) found.push(`only ${refused} writes were refused`)
  return [{ what: 'a full disk (tmpfs: out of space, out of inodes)', tried: `${refused} refused writes`, found }]
}

/** Writes until the disk is full, and beyond; then frees space, and continues. */
async function fill(base, found) {
  const store = new CheckpointStore(base, Infinity)
  await store.initialize()
  let refused = 0
  const acknowledged = []
  const expect = (result, what) => {
    if (result.success) return true
    refused += 1
    if (!['WAYMARK_IO', 'WAYMARK_OUTCOME_UNKNOWN'].includes(result.code) || result.cause?.code !== 'ENOSPC') {
      found.push(`${what}: ${result.code} ${result.error}`)
    }
    return false
  }
  let saved = 0
  for (let number = 1; number <= 30; number += 1) {
    const made = await store.createCheckpoint(newSession(number), {}, {}, OPTIONS)
    if (expect(made, 'createCheckpoint')) acknowledged.push(made.checkpointId)
    const result = await store.saveTaskResult('s', 't', { number, filler: FILLER })
    if (expect(result, 'saveTaskResult')) saved = number
    if (acknowledged.length > 0) {
      const restored = await store.restoreCheckpoint({ checkpointId: acknowledged.at(-1), sessionId: 's' })
      expect(restored, 'restoreCheckpoint')
    }
  }
  const report = await store.verifySession('s')
  for (const entry of [...report.checkpoints, ...report.files]) if (!entry.whole) found.push(entry.error)
  if (report.checkpoints.length !== acknowledged.length) {
    found.push(`${acknowledged.length} checkpoints were acknowledged, ${report.checkpoints.length} are there`)
  }
  const number = (await store.loadTaskResult('s', 't'))?.number ?? 0
  if (number !== saved) found.push(`result ${saved} was acknowledged, ${number} is there`)
  const [session, tree] = [await store.loadSession('s'), await store.loadTaskTree('s')]
  if (session?.metadata.number !== tree?.task.number) found.push('session and tree are of different checkpoints')
  for (const part of ['.', 'checkpoints', 'results']) {
    const left = listed(join(base, 's', part)).filter((name) => name.endsWith('.tmp'))
    if (left.length > 0) found.push(`left behind: ${left}`)
  }
  for (const id of acknowledged.slice(0, -1)) await store.deleteCheckpoint('s', id)
  const after = await store.saveTaskResult('s', 't', { number: 0 })
  if (!after.success) found.push(`with free space again: ${after.error}`)
  await store.close()
  return refused
}

/** A write that ends at exactly byte n, for many n: no incomplete write may be acknowledged. */
async function limitedFileSize(addon, weakened = '') {
  const found = []
  const limits = [0, 1, 100, 2000, 4096, 8191]
  for (const limit of limits) {
    const base = mkdtempSync(join(tmpdir(), 'waymark-limit-'))
    const source = `
      const { CheckpointStore } = require(${JSON.stringify(addon)})
      process.on('SIGXFSZ', () => {})
      const store = new CheckpointStore(${JSON.stringify(base)})
      store.initialize()
        .then(() => store.saveTaskResult('s', 't', ${JSON.stringify({ filler: FILLER })}))
        .then((result) => console.log(JSON.stringify(result)))
    `
    const env = { ...process.env, WAYMARK_WEAKENED: weakened }
    const program = `prlimit --fsize=${limit} "$0" --eval "$1"`
    const answer = JSON.parse(execFileSync('sh', ['-c', program, process.execPath, source], { env, encoding: 'utf8' }))
    const path = join(base, 's', 'results', 't.json')
    const there = listed(join(base, 's', 'results'))
    if (answer.success && !isJson(path)) found.push(`with at most ${limit} bytes: acknowledged, and torn`)
    if (!answer.success && there.length > 0) found.push(`with at most ${limit} bytes: left over ${there}`)
    rmSync(base, { recursive: true })
  }
  const what = 'a write that ends at byte n (RLIMIT_FSIZE)'
  return { what: weakened ? `the same with short writes ignored` : what, tried: `${limits.length} limits`, found }
}

function isJson(path) {
  try {
    JSON.parse(readFileSync(path, 'utf8'))
    return true
  } catch {
    return false
  }
}

async function readOnlyDirectory() {
  const found = []
  const base = mkdtempSync(join(tmpdir(), 'waymark-read-only-'))
  const store = new CheckpointStore(base)
  await store.initialize()
  const made = await store.createCheckpoint(newSession(1), {}, {}, OPTIONS)
  for (const directory of ['s/checkpoints', 's', '.']) chmodSync(join(base, directory), 0o555)
  chmodSync(made.path, 0o444)
  const session = JSON.stringify(newSession(2))
  const source = `
    if (process.getuid() === 0) { process.setgid(65534); process.setuid(65534) }
    const { CheckpointStore } = addon
    const store = new CheckpointStore(${JSON.stringify(base)})
    const session = ${session}
    store.initialize().then(async () => {
      const results = [
        await store.saveSession(session), await store.saveTaskTree('s', {}), await store.saveTaskResult('s', 't', 1),
        await store.createCheckpoint(session, {}, {}, ${JSON.stringify(OPTIONS)}),
        await store.restoreCheckpoint('s', ${JSON.stringify(made.checkpointId)}),
        await store.deleteCheckpoint('s', ${JSON.stringify(made.checkpointId)}), await store.deleteSession('s'),
      ]
      const read = await store.getLatestCheckpoint('s')
      console.log(JSON.stringify({ results, read: read.id }))
    })
  `
  const program = `const addon = require(${JSON.stringify(ADDON)});${source}`
  const { results, read } = JSON.parse(execFileSync(process.execPath, ['--eval', program], { encoding: 'utf8' }))
  for (const [index, result] of results.entries()) {
    if (result.success || result.code !== 'WAYMARK_IO') found.push(`write ${index}: ${JSON.stringify(result)}`)
  }
  if (read !== made.checkpointId) found.push('the checkpoint cannot be read')
  await store.close()
  rmSync(base, { recursive: true })
  return { what: 'a read-only directory', tried: `${results.length} refused methods`, found }
}

async function removedInMidFlight() {
  const found = []
  const base = join(mkdtempSync(join(tmpdir(), 'waymark-removed-')), 'base')
  const store = new CheckpointStore(base)
  await store.initialize()
  let calls = 0
  for (let round = 0; round < 40; round += 1) {
    const writes = Array.from({ length: 6 }, (_, index) => [
      store.createCheckpoint(newSession(index), {}, {}, OPTIONS),
      store.saveSession(newSession(index)),
      store.saveTaskTree('s', { task: { index } }),
    ]).flat()
    calls += writes.length
    try {
      rmSync(round % 2 === 0 ? join(base, 's') : base, { recursive: true, force: true })
    } catch {
      // The writers were quicker.
    }
    for (const result of await Promise.all(writes)) if (!result.success) found.push(result.error)
    mkdirSync(base, { recursive: true })
  }
  const report = await store.verifySession('s')
  if (!report.whole) found.push('the stored data are damaged')
  await store.close()
  return { what: 'the session or base directory removed in mid-flight', tried: `40 removals, ${calls} writes`, found }
}
