// The fault campaign: checks that acknowledged data survive crashes, power cuts and failing system calls.
//
//   node faults/run.mjs [part ...]
//
// Prints a table, and fails if data were lost, or if a deliberate defect was not detected.

import { execFileSync } from 'node:child_process'
import { performance } from 'node:perf_hooks'

const PARTS = ['refused', 'power', 'kill', 'full-disk', 'processes', 'mixed', 'fuzz']

const names = process.argv.length > 2 ? process.argv.slice(2) : PARTS
const unknown = names.filter((name) => !PARTS.includes(name))
if (unknown.length > 0) {
  console.error(`Unknown part ${unknown.join(', ')}. There are: ${PARTS.join(', ')}`)
  process.exit(2)
}
execFileSync('npm', ['ci', '--silent', '--prefix', new URL('.', import.meta.url).pathname], { stdio: 'inherit' })

const started = performance.now()
const rows = []
for (const name of names) {
  const begun = performance.now()
  const { run } = await import(`./parts/${name}.mjs`)
  rows.push(...(await run()))
  console.error(`${name}: ${Math.round((performance.now() - begun) / 1000)} s`)
}

let failed = 0
console.log('\n| what | tried | lost or torn |\n|---|---|---|')
for (const row of rows) {
  const isBad = !row.isOther && !row.isSkipped && (row.mustFind ? row.found.length === 0 : row.found.length > 0)
  failed += isBad ? 1 : 0
  console.log(`| ${row.what} | ${row.tried} | ${verdict(row)}${isBad ? ' — FAILED' : ''} |`)
}
for (const row of rows) {
  if (!row.mustFind && !row.isOther) for (const finding of row.found.slice(0, 5)) console.log(`${row.what}: ${finding}`)
}
const skippedRows = rows.filter((row) => row.isSkipped).length
console.log(`\n${Math.round((performance.now() - started) / 1000)} s`)
console.log(`${rows.length - failed - skippedRows} passed, ${failed} failed, ${skippedRows} skipped`)
process.exitCode = failed > 0 ? 1 : 0

function verdict({ found, isSkipped, mustFind, isOther }) {
  if (isSkipped) return '—'
  if (mustFind) return found.length > 0 ? `noticed (${found.length})` : 'not noticed'
  return isOther || found.length > 0 ? String(found.length) : '0'
}
