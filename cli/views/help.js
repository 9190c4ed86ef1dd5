// Help texts, generated from the descriptions of the commands.

'use strict'

const { commonOptionsOf, positionalsOf, usageLine } = require('../input/arguments.js')
const { NAMES, SUMMARIES } = require('../commands/index.js')

const WIDTH = 80

const INTRODUCTION = 'Inspect and manage the checkpoints of a swarm of agents.'
const NOTES = [
  'The store is the last argument of a command, --store or WAYMARK_STORE: a directory, sqlite:<file> or postgres://…. ' +
    'The default is ~/.meshseeks/sessions. A single argument is a location if it begins with /, ./, ../, ~/, a drive ' +
    'letter or a scheme; otherwise it is a session.',
  'A session is written as its id or a unique prefix of it. A checkpoint is written as <session>/<checkpoint>, where the ' +
    'second part is an id, a unique prefix, a label, latest, or latest~2 for the second one before the newest. Write ' +
    'an id that begins with a dash after --: waymark show -- -x.',
  'Exit codes: 0 success; 1 damage or a difference was found, or the work failed; 2 wrong command line; 130 interrupted.',
]

/** `waymark --help`. */
function overview() {
  const width = Math.max(...NAMES.map((name) => name.length))
  return text([
    `waymark: ${INTRODUCTION}`,
    '',
    'Usage: waymark <command> [arguments] [options]',
    '',
    'Commands:',
    ...rows(Object.entries(SUMMARIES), width),
    '',
    ...NOTES.flatMap((note) => wrapped(note, WIDTH).concat('')),
    'waymark <command> --help shows arguments, options and examples.',
  ])
}

/** `waymark <command> --help`. */
function helpOf(spec) {
  const args = positionalsOf(spec).map(({ name, description }) => [name, description])
  const own = spec.options.map(optionRow)
  const common = commonOptionsOf(spec).map(optionRow)
  const width = Math.max(...[...args, ...own, ...common].map(([name]) => name.length))
  return text([
    ...wrapped(`waymark ${spec.name}: ${spec.summary}`, WIDTH),
    '',
    ...wrapped(`Usage: waymark ${usageLine(spec)} [options]`, WIDTH),
    ...section('Arguments:', args, width),
    ...section('Options:', [...own, ...common], width),
    ...(spec.notes ?? []).flatMap((note) => [''].concat(wrapped(note, WIDTH))),
    '',
    spec.examples.length === 1 ? 'Example:' : 'Examples:',
    ...spec.examples.map((example) => `  ${example}`),
  ])
}

function section(title, entries, width) {
  return entries.length === 0 ? [] : ['', title, ...rows(entries, width)]
}

function optionRow({ name, short, value, description }) {
  return [`${short ? `-${short}, ` : '    '}--${name}${value ? ` <${value}>` : ''}`, description]
}

function rows(entries, width) {
  return entries.flatMap(([name, description]) => {
    const [first, ...rest] = wrapped(description, WIDTH - width - 4)
    return [`  ${name.padEnd(width)}  ${first}`, ...rest.map((line) => ' '.repeat(width + 4) + line)]
  })
}

function wrapped(paragraph, width) {
  const lines = ['']
  for (const word of paragraph.split(' ')) {
    const line = lines.at(-1)
    if (line === '') lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines
}

function text(lines) {
  return lines.map((line) => `${line}\n`).join('')
}

module.exports = { helpOf, overview }
