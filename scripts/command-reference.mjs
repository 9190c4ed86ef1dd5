// Writes the table of commands in the README from their own descriptions: `npm run readme`.
//
//   node scripts/command-reference.mjs [--check]

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)
const { commonOptionsOf, usageLine } = require('../cli/input/arguments.js')
const { allCommands } = require('../cli/commands/index.js')

const README = fileURLToPath(new URL('../README.md', import.meta.url))
const BEGIN = '<!-- commands: npm run readme writes what is between these lines -->'
const END = '<!-- end of commands -->'

/** A table of all commands. */
export function reference() {
  const commands = allCommands()
  const rows = commands.map(
    (spec) => `| \`waymark ${usageLine(spec)}\` | ${[spec.summary, ...details(spec)].join(' ')} |`,
  )
  return ['| command | |', '|---|---|', ...rows].join('\n')
}

function details(spec) {
  const options = spec.options.concat(commonOptionsOf(spec).filter(({ name }) => name === 'yes' || name === 'json'))
  return options.map(({ name, short, value, description }) => {
    const spelt = `\`--${name}${value ? ` <${value}>` : ''}\`${short ? `, \`-${short}\`` : ''}`
    return `<br>${spelt}: ${description}`
  })
}

/** The README with the current table. */
export function withReference(readme) {
  const [before, rest] = cut(readme, BEGIN)
  const [, after] = cut(rest, END)
  return `${before}${BEGIN}\n\n${reference()}\n\n${END}${after}`
}

function cut(text, marker) {
  const at = text.indexOf(marker)
  if (at < 0) throw new Error(`The README has no line ${marker}`)
  return [text.slice(0, at), text.slice(at + marker.length)]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const readme = readFileSync(README, 'utf8')
  const wanted = withReference(readme)
  if (!process.argv.includes('--check')) writeFileSync(README, wanted)
  else if (readme !== wanted) {
    console.error('The table of commands in the README is out of date: npm run readme')
    process.exitCode = 1
  }
}
