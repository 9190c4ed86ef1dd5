// Measures everything, prints the tables, and writes them into the README, with the plot and results.json beside this
// file. An argument picks lines by a part of their group's name, and writes nothing: `npm run bench -- burst`.

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { runtime } from '../scripts/runtimes.mjs'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const LEAST_NODE = 22

if (Number.parseInt(process.versions.node, 10) < LEAST_NODE) {
  // node:sqlite, and the newest of the other peers, need a later one.
  const { status } = spawnSync(runtime('node24'), process.argv.slice(1), { stdio: 'inherit' })
  process.exit(status ?? 1)
}
if (!existsSync(join(HERE, 'node_modules'))) {
  // Every peer contains its binary; nothing has to be built.
  execFileSync('npm', ['ci', '--ignore-scripts', '--silent'], { cwd: HERE, stdio: 'inherit' })
}

const [create, eventLoop, read, gzip, burst, memory, orchestrator, storage, postgres, contenders, { plot }, report] =
  await Promise.all(
    [
      'lines/create',
      'lines/event-loop',
      'lines/read',
      'lines/gzip',
      'lines/burst',
      'lines/memory',
      'lines/orchestrator',
      'lines/storage',
      'lines/postgres',
      'lines/contenders',
      'plot',
      'report',
    ].map((name) => import(`./${name}.mjs`)),
  )

const GROUPS = {
  'against plain JavaScript': create.againstPlainJavaScript,
  'against few kept': create.againstFewKept,
  'event loop held': eventLoop.held,
  'against the floor': create.againstFloor,
  'the newest': read.latest,
  restore: read.restore,
  gzip: gzip.gzip,
  list: read.list,
  burst: burst.burst,
  memory: memory.memory,
  stall: eventLoop.stall,
  agents: orchestrator.agents,
  overview: orchestrator.overview,
  diff: orchestrator.diff,
  storage: storage.storage,
  postgres: postgres.postgres,
}

const [wanted = ''] = process.argv.slice(2)
const lines = []
for (const [group, measure] of Object.entries(GROUPS)) {
  if (!group.includes(wanted)) continue
  process.stderr.write(`measuring: ${group} …\n`)
  lines.push(...(await measure()))
}
if (lines.length > 0) console.log(`\n${report.linesTable(lines)}\n`)

if (wanted === '') {
  process.stderr.write('measuring: everybody, by size and by number kept …\n')
  const sizes = await contenders.bySize()
  const kept = await contenders.byNumberKept()
  console.log(`${report.contendersTable(sizes)}\n`)
  const machine = `Node.js ${process.version}, ${cpus().length} × ${cpus()[0].model}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.platform}`
  const { version } = JSON.parse(readFileSync(join(HERE, '../package.json'), 'utf8'))
  const results = { waymark: version, machine, when: new Date().toISOString(), lines, sizes, kept }
  writeFileSync(join(HERE, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  writeFileSync(join(HERE, 'cost.svg'), plot(panels(sizes, kept)))
  const pathOf = (document) => join(HERE, '..', document)
  const documents = ['README.md', 'docs/architecture.md'].map((name) => [name, readFileSync(pathOf(name), 'utf8')])
  const filled = report.withTables(Object.fromEntries(documents), results)
  for (const [name, text] of Object.entries(filled)) writeFileSync(pathOf(name), text)
  console.log(
    `${machine}\nWritten: benchmark/results.json, benchmark/cost.svg, and the tables in README.md and docs/architecture.md`,
  )
}

const missed = lines.filter(({ reached }) => reached === false)
console.log(missed.length === 0 ? 'Every goal is reached.' : `Missed: ${missed.length} of ${lines.length} lines.`)
process.exit()

function panels(sizes, kept) {
  const labelOf = (name) => (name === 'plain JavaScript' ? `${name}, not durable` : name)
  const points = (costs) => Object.entries(costs).map(([at, { median }]) => [Number(at), median])
  return [
    {
      title: 'ms for a checkpoint, by size',
      axis: 'tasks in the state',
      series: sizes.table.map(({ name, costs }) => ({ name: labelOf(name), points: points(costs) })),
    },
    {
      title: 'ms for a checkpoint of 1,000 tasks, by number kept',
      axis: 'checkpoints kept',
      series: kept.map(({ name, costs }) => ({ name: labelOf(name), points: points(costs) })),
    },
  ]
}
