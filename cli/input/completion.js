// Completion candidates for an unfinished command line, for the scripts of `waymark completion`.

'use strict'

const { optionsOf, positionalsOf } = require('./arguments.js')
const { NAMES, commandOf } = require('../commands/index.js')

/**
 * The candidates, one per line. `argv` is the shell and its input: for bash the line up to the cursor and COMP_WORDBREAKS, for
 * other shells the index of the current word and all words.
 */
async function complete([shell, ...input]) {
  if (shell === 'bash') return bashCandidates(...input)
  const [index, ...words] = input
  const candidates = await matchingCandidates(words.slice(1, index), words[index] ?? '')
  return candidates.map((candidate) => `${candidate}\n`).join('')
}

/** Bash inserts candidates literally, and replaces only the text after an open quote or after the last word break. */
async function bashCandidates(line, breaks) {
  const [, ...words] = shellWords(line, breaks)
  const { text, start, quote } = words.pop() ?? { text: '', start: 0, quote: '' }
  const before = words.map((word) => word.text)
  const candidates = await matchingCandidates(before, text)
  return candidates.map((candidate) => `${shellEscape(candidate.slice(start), quote)}\n`).join('')
}

async function matchingCandidates(before, typed) {
  const candidates = await candidatesFor(before, typed)
  return candidates.filter((candidate) => candidate.startsWith(typed))
}

/** The words of an unfinished line: `{ text, start, quote }`; bash replaces the text from `start` on. */
function shellWords(line, breaks) {
  const words = []
  let word
  let quote = ''
  for (let at = 0; at <= line.length; at += 1) {
    const character = line[at] ?? ''
    if (quote === '' && /^\s$/.test(character)) {
      word = undefined
      continue
    }
    if (!word) words.push((word = { text: '', start: 0, quote: '' }))
    if (character === quote) quote = ''
    else if (quote === '' && (character === '"' || character === "'")) {
      quote = character
      word.start = word.text.length
    } else if (character === '\\' && quote !== "'") {
      at += 1
      word.text += line[at] ?? ''
    } else {
      word.text += character
      // Bash replaces the `@` together with the text after it.
      if (quote === '' && character !== '' && breaks.includes(character))
        word.start = word.text.length - Number(character === '@')
    }
    word.quote = quote
  }
  return words
}

/** Escapes a candidate for bash, inside or outside an open quote. */
function shellEscape(text, quote) {
  if (quote === "'") return text.replaceAll("'", String.raw`'\''`)
  const special = quote === '"' ? /["$\\`]/g : /[^\p{L}\p{N}_./:~@%+,=-]/gu
  return text.replaceAll(special, String.raw`\$&`)
}

async function candidatesFor([name, ...rest], typed) {
  if (name === undefined) return typed.startsWith('-') ? ['--help', '--version'] : NAMES
  const command = commandOf(name)
  if (!command) return name === 'help' && rest.length === 0 ? NAMES : []
  const options = optionsOf(command)
  const { words, store, valueOf, isAfterDashes } = classify(rest, options)
  if (valueOf === 'session') return fromStore(words[0], sessionIds)
  if (typed.startsWith('-') && !isAfterDashes && !valueOf) return options.map((option) => `--${option.name}`)
  const { isLocation } = require('./location.js')
  // The shell completes locations and option values with file names.
  if (valueOf || isLocation(typed)) return []
  const { name: expected = '', values } = positionalsOf(command)[words.length] ?? {}
  if (values) return values
  if (!/session|before|after/.test(expected) || expected === 'new-session') return []
  return fromStore(store ?? (process.env.WAYMARK_STORE || undefined), (each) =>
    references(each, expected, typed, words),
  )
}

/** Separates positional arguments from options: also the store, and the option that still needs its value. */
function classify(rest, options) {
  const words = []
  let store
  let valueOf
  let isAfterDashes = false
  for (const word of rest) {
    if (valueOf) {
      if (valueOf === 'store') store = word
      valueOf = undefined
    } else if (word === '--' && !isAfterDashes) isAfterDashes = true
    else if (word.startsWith('-') && word !== '-' && !isAfterDashes) {
      const option = options.find(({ name, short }) => word === `--${name}` || word === `-${short}`)
      valueOf = option?.value && option.name
      if (word.startsWith('--store=')) store = word.slice('--store='.length)
    } else words.push(word)
  }
  return { words, store, valueOf, isAfterDashes }
}

/** Names from a store; none if it does not exist or cannot be read. */
async function fromStore(location, namesIn) {
  const { openStore } = require('./location.js')
  const store = await openStore(location).catch(() => undefined)
  if (!store) return []
  try {
    const names = await namesIn(store)
    // A control character cannot be typed, and a terminal would execute it.
    return names.filter((each) => !/\p{Cc}/u.test(each))
  } catch {
    return []
  } finally {
    await store.close()
  }
}

/** Session ids; after a slash, the labels and ids of checkpoints. The second argument of `diff` may omit the session. */
async function references(store, expected, typed, words) {
  const { split } = require('./references.js')
  const { session, ref } = split(typed)
  if (ref !== undefined) return (await checkpointRefs(store, session)).map((each) => `${session}/${each}`)
  const ids = await sessionIds(store)
  const isOptional = expected.includes('[/')
  const names = expected.includes('/') && !isOptional ? ids.map((id) => `${id}/`) : ids
  return expected === '[session/]after' ? [...(await checkpointRefs(store, split(words[0]).session)), ...names] : names
}

async function sessionIds(store) {
  return (await store.sessionsInfo()).map(({ id }) => id)
}

async function checkpointRefs(store, session) {
  const { checkpointsOf } = require('./references.js')
  const checkpoints = await checkpointsOf(store, session)
  const labels = checkpoints.flatMap(({ info }) => (info?.label ? [info.label] : []))
  return [...new Set(['latest', ...labels, ...checkpoints.map(({ id }) => id)])]
}

module.exports = { complete }
