// Every truncation and every flipped bit of a small checkpoint, random values through save and load, and mutated
// documents through every read method.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

import { ADDON, CheckpointStore, ROOT } from '../harness.mjs'
import { weakenedAddon } from '../weakened.mjs'

const MUTATIONS = Number(process.env.WAYMARK_MUTATIONS ?? 100_000)
const VALUES = 10_000

export async function run() {
  const rows = []
  for (const compress of [false, true]) rows.push(await everyBit(compress))
  rows.push(everyBitWithoutChecksum())
  rows.push(await randomValues(), mutations())
  return rows
}

/** A checkpoint of about one kilobyte, changed at every byte. */
export async function everyBit(compress, Store = CheckpointStore) {
  const base = mkdtempSync(join(tmpdir(), 'waymark-bits-'))
  const store = new Store(base)
  await store.initialize()
  const session = { id: 's', name: 'né', checkpointIds: [], taskTree: { a: { status: 'failed', n: 1.5 } } }
  const options = {
    trigger: 'manual',
    includeContext: true,
    compress,
    metadata: { k: [true, null], text: 'é '.repeat(110) },
  }
  const { checkpointId, path } = await store.createCheckpoint(session, { x: {} }, { c: 'text "q"' }, options)
  const bytes = readFileSync(path)
  const truth = await store.getCheckpoint('s', checkpointId)
  const found = []
  let noticed = 0
  let harmless = 0
  const judge = async (changed, what) => {
    writeFileSync(path, changed)
    const read = await store.getCheckpoint('s', checkpointId).catch((error) => error)
    if (read instanceof Error && read.code?.startsWith('WAYMARK_')) noticed += 1
    else if (isDeepStrictEqual({ ...read, sizeBytes: 0 }, { ...truth, sizeBytes: 0 })) harmless += 1
    else found.push(`${what} went unnoticed`)
  }
  for (let length = 0; length < bytes.length; length += 1)
    await judge(bytes.subarray(0, length), `truncation to ${length}`)
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3] ^= 1 << (bit & 7)
    await judge(changed, `bit ${bit}`)
  }
  writeFileSync(path, bytes)
  const whole = (await store.verifyCheckpoint('s', checkpointId)).whole
  if (!whole) found.push('the untouched one is called damaged')
  await store.close()
  rmSync(base, { recursive: true })
  return {
    what: `every truncation and every bit of a checkpoint, ${compress ? 'gzip' : 'plain'}`,
    tried: `${noticed + harmless + found.length} changes: ${noticed} noticed, ${harmless} mean the same`,
    found,
  }
}

function everyBitWithoutChecksum() {
  const source = `
    import { createRequire } from 'node:module'
    import { everyBit } from ${JSON.stringify(import.meta.url)}
    const { CheckpointStore } = createRequire(import.meta.url)(${JSON.stringify(weakenedAddon())})
    console.log(JSON.stringify(await everyBit(false, CheckpointStore)))
  `
  const env = { ...process.env, WAYMARK_WEAKENED: 'checksum' }
  const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', source], {
    env,
    encoding: 'utf8',
    cwd: ROOT,
  })
  const { tried, found } = JSON.parse(printed)
  return { what: 'the same without checksums', tried, found, mustFind: true }
}

async function randomValues() {
  const store = new (createRequire(import.meta.url)(ADDON).CheckpointStore)('memory:')
  await store.initialize()
  const random = newRandom(20_261_116)
  const found = []
  for (let index = 0; index < VALUES; index += 1) {
    const value = randomValue(random, 0)
    const text = JSON.stringify(value)
    const result = await store.saveTaskResult('s', 't', value)
    const isStored = result.success === (text !== undefined)
    if (!isStored) found.push(`${text}: ${result.error}`)
    else if (
      text !== undefined &&
      JSON.stringify(await store.loadTaskResult('s', 't')) !== JSON.stringify(JSON.parse(text))
    ) {
      found.push(`${text} came back as something else`)
    }
  }
  await store.close()
  return {
    what: 'random values through save and load, against JSON.parse(JSON.stringify(x))',
    tried: `${VALUES} values`,
    found,
  }
}

function randomValue(random, depth) {
  const text = () =>
    String.fromCharCode(...Array.from({ length: random(12) }, () => [random(128), random(0x10000)][random(2)]))
  const kinds = [
    () => null,
    () => random(2) === 0,
    () => (random(2_000_001) - 1_000_000) * 10 ** (random(40) - 20),
    () => [NaN, Infinity, -0, 2 ** 53, 5e-324, 1e21][random(6)],
    text,
    () => new Date(random(2 ** 31) * 1000),
    () => undefined,
    () => Array.from({ length: random(6) }, () => randomValue(random, depth + 1)),
    () =>
      Object.fromEntries(
        Array.from({ length: random(6) }, () => [
          [text(), String(random(50)), '__proto__'][random(3)],
          randomValue(random, depth + 1),
        ]),
      ),
  ]
  return kinds[random(depth > 5 ? 7 : kinds.length)]()
}

function newRandom(seed) {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

/** In Rust, which needs only seconds for a hundred thousand. */
function mutations() {
  const env = { ...process.env, WAYMARK_MUTATIONS: String(MUTATIONS) }
  const args = ['test', '--release', '--no-default-features', '--test', 'mutations', '--', '--nocapture']
  const found = []
  try {
    const printed = execFileSync('cargo', args, { cwd: ROOT, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    const figures = printed.match(/campaign: (.*)/)?.[1]
    if (!figures) found.push('the test said nothing')
    return { what: 'mutated store files through every read method (flip, cut, splice, swap)', tried: figures, found }
  } catch (error) {
    found.push(String(error.stdout).slice(-2000))
    return { what: 'mutated store files through every read method', tried: `${MUTATIONS} files`, found }
  }
}
