// Runs the mixed campaign alone.
//
//   node faults/mixed.mjs [--backend files,sqlite,memory,postgres] [--phase name,…] [--minutes 5] [--seed 7] [--action name,…] [--first] [--quiet] [--json]
//
// The backends share the minutes. Without a seed one is chosen, and printed. `--action` limits the calls of
// a storm. `--first` stops at the first finding. For PostgreSQL it starts a server, or uses DATABASE_URL.

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { ALL_PHASES, runCampaign } from './mixed/campaign.mjs'
import { kinds } from './mixed/judge.mjs'
import { BACKENDS } from './mixed/locations.mjs'
import { WEIGHTS } from './mixed/users.mjs'
import { skipped } from './machine.mjs'

/** How many kinds of findings are printed for each phase. */
const SHOWN = 25

/** Runs the campaign on each backend. Resolves to rows for `run.mjs`. */
export async function runMixed({
  backends = BACKENDS,
  phases,
  seconds = 300,
  seed,
  keepGoing = true,
  actions,
  report,
} = {}) {
  const rows = []
  const { server, url, reason } = backends.includes('postgres') ? await postgres() : {}
  try {
    for (const [index, backend] of backends.entries()) {
      if (backend === 'postgres' && !url) {
        rows.push(skipped('the mixed campaign (postgres)', reason))
        continue
      }
      const share = {
        backend,
        seconds: seconds / backends.length,
        seed: seed + index,
        phases,
        keepGoing,
        actions,
        report,
      }
      rows.push(...(await runCampaign({ ...share, postgresUrl: url })))
    }
  } finally {
    await server?.stop()
  }
  return rows
}

async function postgres() {
  const given = process.env.DATABASE_URL ?? process.env.WAYMARK_TEST_DATABASE_URL
  if (given) return { url: given }
  const { startPostgres } = await import('../scripts/postgres.mjs')
  try {
    const server = await startPostgres()
    return { server, url: server.url }
  } catch (error) {
    return { reason: `no PostgreSQL server can be started (${error.message.split('\n')[0]})` }
  }
}

function options() {
  const { values } = parseArgs({
    options: {
      backend: { type: 'string', default: BACKENDS.join(',') },
      phase: { type: 'string', default: Object.keys(ALL_PHASES).join(',') },
      minutes: { type: 'string', default: '5' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1_000_000)) },
      action: { type: 'string', default: Object.keys(WEIGHTS).join(',') },
      first: { type: 'boolean', default: false },
      quiet: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  })
  const [backends, phases, actions] = [values.backend, values.phase, values.action].map((list) => list.split(','))
  const unknown = [
    ...backends.filter((name) => !BACKENDS.includes(name)),
    ...phases.filter((name) => !(name in ALL_PHASES)),
    ...actions.filter((name) => !(name in WEIGHTS)),
  ]
  const [seconds, seed] = [Number(values.minutes) * 60, Number(values.seed)]
  if (unknown.length > 0 || !(seconds >= 0) || !Number.isSafeInteger(seed)) {
    console.error(
      `Unknown: ${unknown.join(', ')}. Backends: ${BACKENDS.join(', ')}. Phases: ${Object.keys(ALL_PHASES).join(', ')}`,
    )
    process.exit(2)
  }
  return {
    backends,
    phases,
    actions,
    seconds,
    seed,
    keepGoing: !values.first,
    isQuiet: values.quiet || values.json,
    isJson: values.json,
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { isQuiet, isJson, ...chosen } = options()
  if (!isJson) console.log(`seed ${chosen.seed}`)
  const report = ({ backend, name, milliseconds, counts, found }) => {
    if (isQuiet) return
    console.log(`${backend} ${name}: ${JSON.stringify(counts)}, ${milliseconds} ms, ${found.length} found`)
    for (const { count, example } of kinds(found).slice(0, SHOWN)) console.log(`  ${count} × such as: ${example}`)
  }
  const rows = await runMixed({ ...chosen, report })
  if (isJson) console.log(JSON.stringify(rows))
  else print(rows, chosen.seed)
  process.exitCode = rows.some(({ found }) => found.length > 0) ? 1 : 0
}

function print(rows, seed) {
  console.log('\n| what | tried | found |\n|---|---|---|')
  for (const { what, tried, found, isSkipped } of rows) {
    console.log(`| ${what} | ${tried} | ${isSkipped ? '—' : found.length}${found.length > 0 ? ' — FAILED' : ''} |`)
  }
  for (const { what, found } of rows) {
    for (const { count, example } of kinds(found).slice(0, SHOWN))
      console.log(`${what}: ${count} × such as: ${example}`)
  }
  const failed = rows.filter(({ found }) => found.length > 0).length
  console.log(`\nseed ${seed}, ${failed} of ${rows.length} failed`)
}
