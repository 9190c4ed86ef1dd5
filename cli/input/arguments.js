// From the words on a command line to what a command is asked for, by what the command says of itself.

'use strict'

const { parseArgs } = require('node:util')

const { wrongUse } = require('./complaint.js')
const { isLocation } = require('./location.js')

const STORE = {
  name: 'store',
  short: 's',
  value: 'location',
  meaning: 'The store, instead of the last word or WAYMARK_STORE.',
}
const YES = { name: 'yes', short: 'y', meaning: 'Do not ask.' }
const HELP = { name: 'help', short: 'h', meaning: 'This text.' }

const LOCATION = {
  name: 'location',
  optional: true,
  meaning: 'A directory, sqlite:<file> or postgres://…; the default is ~/.meshseeks/sessions.',
}

/** The words that a command takes: its own, and the location unless it names its places itself. */
function positionalsOf(spec) {
  return spec.hasNoStore ? spec.positionals : [...spec.positionals, LOCATION]
}

/** The options that a command takes: its own, and those that all have. */
function optionsOf(spec) {
  return [...spec.options, ...commonOptionsOf(spec)]
}

function commonOptionsOf(spec) {
  return [...(spec.hasNoStore ? [] : [STORE]), ...(spec.isDestructive ? [YES] : []), jsonOptionOf(spec), HELP]
}

/** A command says what its document is, unless it writes something else than one. */
function jsonOptionOf({ json, document }) {
  return json ?? { name: 'json', meaning: `One JSON document instead of text: ${document}.` }
}

/** Reads a command line: `{ words, options }`, each by its name. */
function read(spec, argv) {
  const { values, positionals } = parsed(spec, argv)
  if (values.help) return { words: {}, options: values }
  const words = assigned(spec, positionals, values)
  return { words, options: values }
}

function parsed(spec, argv) {
  const options = optionsOf(spec)
  const described = options.map(({ name, short, value }) => [
    name,
    { type: value ? 'string' : 'boolean', ...(short && { short }) },
  ])
  try {
    return parseArgs({ args: argv, options: Object.fromEntries(described), allowPositionals: true, strict: true })
  } catch (error) {
    if (!error.code?.startsWith('ERR_PARSE_ARGS_')) throw error
    const [, word = ''] = /'(-[^'\s,]*)/.exec(error.message) ?? []
    if (error.message.includes('argument is ambiguous')) {
      throw wrongUse(`What comes after ${word} begins with a dash, and is no value for it. ${seeHelp(spec)}`)
    }
    if (error.code !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
      const [sentence] = error.message.split(/\.\s/)
      throw wrongUse(`${sentence.replace(/\.?$/, '.')} ${seeHelp(spec)}`)
    }
    const { didYouMean } = require('./near.js')
    const names = options.map(({ name }) => `--${name}`)
    const hint =
      didYouMean(word, names) || (spec.positionals.length > 0 ? ' A name that begins with a dash goes behind --.' : '')
    throw wrongUse(`The command ${spec.name} has no option ${word}.${hint} ${seeHelp(spec)}`)
  }
}

/** Gives each word its place. A single word where two are optional is a location if it looks like one. */
function assigned(spec, given, options) {
  const positionals = positionalsOf(spec)
  const required = positionals.filter(({ optional }) => !optional)
  if (given.length < required.length) {
    const { name } = required[given.length]
    throw wrongUse(`The command ${spec.name} needs a ${name}: waymark ${usageOf(spec)}. ${seeHelp(spec)}`)
  }
  const words = Object.fromEntries(required.map(({ name }, index) => [name, given[index]]))
  let rest = given.slice(required.length)
  const optional = positionals.filter((positional) => positional.optional)
  const taken = spec.isWithout?.(options) ?? []
  for (const { name } of optional) {
    if (rest.length === 0) break
    if (taken.includes(name)) continue
    // The location comes last: what is alone and looks like one is one.
    if (name !== 'location' && !spec.hasNoStore && rest.length === 1 && isLocation(rest[0])) continue
    words[name] = rest[0]
    rest = rest.slice(1)
  }
  if (rest.length > 0) {
    const surplus = isLocation(rest[0]) ? 'a second location' : JSON.stringify(rest[0])
    throw wrongUse(`The command ${spec.name} does not know what to do with ${surplus}. ${seeHelp(spec)}`)
  }
  if (words.location !== undefined && options.store !== undefined) {
    // Not in full: a place may have a password in it.
    throw wrongUse(
      `The command ${spec.name} was given two places, a last word and --store: leave one out. ${seeHelp(spec)}`,
    )
  }
  return words
}

/** How a command is written, without the program. */
function usageOf(spec) {
  const words = positionalsOf(spec).map(({ name, optional }) => (optional ? `[${name}]` : `<${name}>`))
  return [spec.name, ...words].join(' ')
}

function seeHelp(spec) {
  return `See waymark ${spec.name} --help.`
}

module.exports = { commonOptionsOf, optionsOf, positionalsOf, read, usageOf }
