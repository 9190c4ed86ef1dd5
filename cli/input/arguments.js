// Parses a command line according to the description of the command.

'use strict'

const { parseArgs } = require('node:util')

const { usageError } = require('../cli-error.js')
const { isLocation } = require('./location.js')

const STORE = {
  name: 'store',
  short: 's',
  value: 'location',
  description: 'The store, instead of the last argument or WAYMARK_STORE.',
}
const YES = { name: 'yes', short: 'y', description: 'Do not ask for confirmation.' }
const HELP = { name: 'help', short: 'h', description: 'Show this help.' }

const LOCATION = {
  name: 'location',
  optional: true,
  description: 'A directory, sqlite:<file> or postgres://…; default ~/.meshseeks/sessions.',
}

/** The positional arguments of a command: its own, then the location unless it names its stores itself. */
function positionalsOf(spec) {
  return spec.hasNoStore ? spec.positionals : [...spec.positionals, LOCATION]
}

/** The options of a command: its own and the common ones. */
function optionsOf(spec) {
  return [...spec.options, ...commonOptionsOf(spec)]
}

function commonOptionsOf(spec) {
  return [...(spec.hasNoStore ? [] : [STORE]), ...(spec.isDestructive ? [YES] : []), jsonOptionOf(spec), HELP]
}

/** A command describes the shape of its JSON result, or its own `json` option. */
function jsonOptionOf({ json, jsonResult }) {
  return json ?? { name: 'json', description: `Print one JSON document: ${jsonResult}.` }
}

/** Parses a command line: `{ args, options }`, each an object by name. */
function readArguments(spec, argv) {
  const { values, positionals } = parse(spec, argv)
  if (values.help) return { args: {}, options: values }
  return { args: assignPositionals(spec, positionals, values), options: values }
}

/** Parses the tokens of `parseArgs()`. They are checked here because its own errors have no structure beyond their text. */
function parse(spec, argv) {
  const known = new Map(optionsOf(spec).map((option) => [option.name, option]))
  const types = [...known].map(([name, { short, value }]) => [
    name,
    { type: value ? 'string' : 'boolean', ...(short && { short }) },
  ])
  const { tokens } = parseArgs({
    args: argv,
    options: Object.fromEntries(types),
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const values = {}
  const positionals = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const option = known.get(token.name)
    if (!option) throw unknownOption(spec, token.rawName)
    values[option.name] = optionValue(spec, option, token)
  }
  return { values, positionals }
}

function optionValue(spec, option, { rawName, value, inlineValue }) {
  if (!option.value) {
    if (value === undefined) return true
    throw usageError(`The option ${rawName} takes no value. ${seeHelp(spec)}`)
  }
  if (value === undefined) throw usageError(`The option ${rawName} needs a ${option.value}. ${seeHelp(spec)}`)
  if (!inlineValue && value.length > 1 && value.startsWith('-')) {
    // The value is not shown: a location may contain a password.
    throw usageError(
      `The value of ${rawName} begins with a dash: write --${option.name}=<${option.value}>. ${seeHelp(spec)}`,
    )
  }
  return value
}

function unknownOption(spec, rawName) {
  const { didYouMean } = require('./suggest.js')
  const names = optionsOf(spec).map(({ name }) => `--${name}`)
  const hint =
    didYouMean(rawName, names) || (spec.positionals.length > 0 ? ' Write an id that begins with a dash after --.' : '')
  return usageError(`The command ${spec.name} has no option ${rawName}.${hint} ${seeHelp(spec)}`)
}

/** Assigns positional arguments to their names. A single argument where two are optional is a location if it looks like one. */
function assignPositionals(spec, given, options) {
  const positionals = positionalsOf(spec)
  const required = positionals.filter(({ optional }) => !optional)
  if (given.length < required.length) {
    const { name } = required[given.length]
    throw usageError(`The command ${spec.name} needs a ${name}: waymark ${usageLine(spec)}. ${seeHelp(spec)}`)
  }
  const args = Object.fromEntries(required.map(({ name }, index) => [name, given[index]]))
  let remaining = given.slice(required.length)
  const omitted = spec.omittedPositionals?.(options) ?? []
  for (const { name, optional } of positionals) {
    if (remaining.length === 0) break
    if (!optional || omitted.includes(name)) continue
    // The location comes last: a single argument that looks like one is the location.
    if (name !== 'location' && !spec.hasNoStore && remaining.length === 1 && isLocation(remaining[0])) continue
    args[name] = remaining[0]
    remaining = remaining.slice(1)
  }
  if (remaining.length > 0) {
    const unexpected = isLocation(remaining[0]) ? 'a second location' : JSON.stringify(remaining[0])
    throw usageError(`The command ${spec.name} got an unexpected argument, ${unexpected}. ${seeHelp(spec)}`)
  }
  if (args.location !== undefined && options.store !== undefined) {
    // The locations are not shown: they may contain a password.
    throw usageError(
      `The command ${spec.name} got two locations, its last argument and --store: leave one out. ${seeHelp(spec)}`,
    )
  }
  return args
}

/** The command with its arguments, without the program. */
function usageLine(spec) {
  const words = positionalsOf(spec).map(({ name, optional }) => (optional ? `[${name}]` : `<${name}>`))
  return [spec.name, ...words].join(' ')
}

function seeHelp(spec) {
  return `See waymark ${spec.name} --help.`
}

module.exports = { commonOptionsOf, optionsOf, positionalsOf, readArguments, usageLine }
