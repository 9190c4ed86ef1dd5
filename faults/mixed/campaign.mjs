// The mixed campaign: several stores and processes call all methods on one location at once.

import { performance } from 'node:perf_hooks'

import { told } from './calls.mjs'
import { newLocation } from './locations.mjs'
import { PHASES } from './phases.mjs'
import { randomFrom } from './random.mjs'
import { stormRound } from './storm.mjs'

const STORM = { what: 'everything at once, with kills, stops and aborts', round: stormRound }

export const ALL_PHASES = { ...PHASES, storm: STORM }

/**
 * Runs the phases on a backend repeatedly until the time is over, each at least once. Resolves to a row for each phase for
 * `run.mjs`.
 *
 * `keepGoing: false` stops at the first finding; `actions` are those of a storm's users, all by default.
 */
export async function runCampaign({
  backend,
  seconds,
  seed,
  phases = Object.keys(ALL_PHASES),
  stormSeconds = 15,
  postgresUrl,
  actions,
  keepGoing = true,
  report = () => {},
}) {
  const rows = new Map()
  const endAt = performance.now() + seconds * 1000
  const random = randomFrom(seed)
  const isOver = () =>
    performance.now() >= endAt || (!keepGoing && [...rows.values()].some(({ found }) => found.length > 0))
  for (let pass = 0; pass === 0 || !isOver(); pass += 1) {
    for (const name of phases) {
      if (pass > 0 && isOver()) break
      const { what, round, repeats } = ALL_PHASES[name]
      const context = {
        backend,
        isShared: backend !== 'memory',
        random: randomFrom(random.fork()),
        newLocation: () => newLocation(backend, postgresUrl),
        seconds: Math.max(3, Math.min(stormSeconds, (endAt - performance.now()) / 1000)),
        actions,
        report,
      }
      if (!rows.has(name)) rows.set(name, { name, what: `${what} (${backend})`, rounds: 0, counts: {}, found: [] })
      const row = rows.get(name)
      if (row.skipped) continue
      const begun = performance.now()
      const before = row.found.length
      for (let repeat = 0; repeat < (repeats ?? 1) && !row.skipped; repeat += 1) {
        const outcome = await round(context).catch((error) => ({
          tried: {},
          found: [`the round ended with ${told(error)}\n${error.stack}`],
        }))
        if (outcome.skipped) row.skipped = outcome.skipped
        else add(row, outcome)
      }
      const milliseconds = Math.round(performance.now() - begun)
      if (!row.skipped)
        report({ backend, name, counts: { ...row.counts }, milliseconds, found: row.found.slice(before) })
    }
  }
  return [...rows.values()].map(toRow)
}

function add(row, { tried, found }) {
  row.rounds += 1
  for (const [key, count] of Object.entries(tried)) row.counts[key] = (row.counts[key] ?? 0) + count
  row.found.push(...found)
}

function toRow({ name, what, rounds, counts, found, skipped }) {
  if (skipped) return { name, what, tried: `skipped: ${skipped}`, found: [], isSkipped: true }
  const counted = Object.entries(counts).map(([key, count]) => `${count} ${key}`)
  return { name, what, tried: [`${rounds} rounds`, ...counted].join(', '), found }
}
