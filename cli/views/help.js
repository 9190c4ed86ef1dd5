// Help, from what the commands say of themselves.

'use strict'

const { commonOptionsOf, positionalsOf, usageOf } = require('./arguments.js')
const { NAMES, SUMMARIES } = require('./commands.js')

const WIDTH = 80

const INTRODUCTION = 'See and steer the checkpoints of a swarm of agents.'
const NOTES = [
  'A store is named by the last word of a command, by --store or by WAYMARK_STORE: a directory, sqlite:<file> or ' +
    'postgres://…. Without any of them it is ~/.meshseeks/sessions. A single word is taken for a location if it begins ' +
    'like one: with /, ./, ../, ~/, a drive letter or a scheme; otherwise it is a session.',
  'A session is an id, or a unique beginning of one. A checkpoint is <session>/<checkpoint>, where the second part is an ' +
    'id, a unique beginning of one, a label, latest, or latest~2 for the second before that. A name that begins with a dash goes behind --: waymark show -- -x.',
  'Exit codes: 0 done; 1 damage or a difference was found, or the work failed; 2 wrong use; 130 stopped.',
]

/** `waymark --help`. */
function overview() {
  const width = Math.max(...NAMES.map((name) => name.length))
  return text([
    `waymark: ${INTRODUCTION}`,
    '',
    'Usage: waymark <command> [words] [options]',
    '',
    'Commands:',
    ...rows(Object.entries(SUMMARIES), width),
    '',
    ...NOTES.flatMap((note) => wrapped(note, WIDTH).concat('')),
    'waymark <command> --help shows words, options and examples.',
  ])
}

/** `waymark <command> --help`. */
function helpOf(spec) {
  const words = positionalsOf(spec).map(({ name, meaning }) => [name, meaning])
  const own = spec.options.map(optionRow)
  const common = commonOptionsOf(spec).map(optionRow)
  const width = Math.max(...[...words, ...own, ...common].map(([name]) => name.length))
  return text([
    ...wrapped(`waymark ${spec.name}: ${spec.summary}`, WIDTH),
    '',
    ...wrapped(`Usage: waymark ${usageOf(spec)} [options]`, WIDTH),
    ...section('Words:', words, width),
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

function optionRow({ name, short, value, meaning }) {
  return [`${short ? `-${short}, ` : '    '}--${name}${value ? ` <${value}>` : ''}`, meaning]
}

function rows(entries, width) {
  return entries.flatMap(([name, meaning]) => {
    const [first, ...rest] = wrapped(meaning, WIDTH - width - 4)
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
