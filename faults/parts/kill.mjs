// SIGKILL at random instants while a process checkpoints, prunes, restores and saves results.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { findings, newHistory, someTime, startWriter } from '../harness.mjs'

const KILLS = 520
const KILLS_PER_DIRECTORY = 65
const LANES = 2
// A checkpoint and a result.
const UNDER_WAY = 2

export async function run() {
  const outcomes = await Promise.all(Array.from({ length: LANES }, () => lane(KILLS / LANES)))
  const sum = (member) => outcomes.reduce((total, outcome) => total + outcome[member], 0)
  const found = outcomes.flatMap((outcome) => outcome.found)
  if (sum('writes') < KILLS) found.push('too few writes')
  return [
    {
      what: 'SIGKILL while checkpointing, pruning, restoring and saving',
      tried: `${sum('kills')} kills, ${sum('writes')} acknowledged writes`,
      found,
    },
  ]
}

async function lane(kills) {
  const outcome = { kills: 0, writes: 0, found: [] }
  while (outcome.kills < kills) {
    const directory = mkdtempSync(join(tmpdir(), 'waymark-kill-'))
    const history = newHistory('ours', directory)
    for (let kill = 0; kill < KILLS_PER_DIRECTORY && outcome.kills < kills; kill += 1) {
      const writer = await startWriter(history)
      await someTime(60)
      await writer.kill()
      outcome.kills += 1
      outcome.found.push(...(await findings(history)))
    }
    outcome.writes += history.writes
    // Another writer has run since every kill but the last: of what dead ones left, only what the last one
    // had under way may still be there. A step's empty directory is kept for a minute: its writer may be about to fill it.
    const left = ['', 'checkpoints', 'results'].flatMap((part) =>
      readdirSync(join(directory, 's', part), { withFileTypes: true }).filter(({ name }) => name.endsWith('.tmp')),
    )
    const files = left.filter((entry) => entry.isFile())
    if (files.length > UNDER_WAY) outcome.found.push(`${files.length} temporary files are left`)
    rmSync(directory, { recursive: true })
  }
  return outcome
}
