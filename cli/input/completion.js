// What could come next on a command line that is not finished: what the scripts of `completion` ask.

'use strict'

const { optionsOf, positionalsOf } = require('./arguments.js')
const { NAMES, commandOf } = require('./commands.js')

/**
 * The candidates, a line each. `argv` is the shell, and what has been typed: for bash the line up to the cursor and the letters
 * at which it breaks words, for others the index of the word that is being typed, and all words.
 */
async function complete([shell, ...typing]) {
  if (shell === 'bash') return inBash(...typing)
  const [index, ...words] = typing
  const found = await fitting(words.slice(1, index), words[index] ?? '')
  return found.map((candidate) => `${candidate}\n`).join('')
}

/** Bash takes candidates as they are, and replaces only what stands behind an open quote, or behind the last break. */
async function inBash(line, breaks) {
  const [, ...words] = shellWords(line, breaks)
  const { text, start, quote } = words.pop() ?? { text: '', start: 0, quote: '' }
  const before = words.map((word) => word.text)
  const found = await fitting(before, text)
  return found.map((candidate) => `${escaped(candidate.slice(start), quote)}\n`).join('')
}

async function fitting(before, typed) {
  const candidates = await candidatesFor(before, typed)
  return candidates.filter((candidate) => candidate.startsWith(typed))
}

/** The words of a line that is not finished: `{ text, start, quote }`, where bash replaces the text from `start` on. */
function shellWords(line, breaks) {
  const words = []
  let word
  let quote = ''
  for (let at = 0; at <= line.length; at += 1) {
    const letter = line[at] ?? ''
    if (quote === '' && /^\s$/.test(letter)) {
      word = undefined
      continue
    }
    if (!word) words.push((word = { text: '', start: 0, quote: '' }))
    if (letter === quote) quote = ''
    else if (quote === '' && (letter === '"' || letter === "'")) {
      quote = letter
      word.start = word.text.length
    } else if (letter === '\\' && quote !== "'") {
      at += 1
      word.text += line[at] ?? ''
    } else {
      word.text += letter
      // What an `@` begins is replaced with it.
      if (quote === '' && letter !== '' && breaks.includes(letter))
        word.start = word.text.length - Number(letter === '@')
    }
    word.quote = quote
  }
  return words
}

/** A candidate as it has to be typed: on its own, or where a quote is open. */
function escaped(text, quote) {
  if (quote === "'") return text.replaceAll("'", String.raw`'\''`)
  const special = quote === '"' ? /["$\\`]/g : /[^\p{L}\p{N}_./:~@%+,=-]/gu
  return text.replaceAll(special, String.raw`\$&`)
}

async function candidatesFor([name, ...rest], typed) {
  if (name === undefined) return typed.startsWith('-') ? ['--help', '--version'] : NAMES
  const command = commandOf(name)
  if (!command) return name === 'help' && rest.length === 0 ? NAMES : []
  const options = optionsOf(command)
  const { words, store, valueOf, isWordsOnly } = sorted(rest, options)
  if (valueOf === 'session') return stored(words[0], (each) => sessionsOf(each))
  if (typed.startsWith('-') && !isWordsOnly && !valueOf) return options.map((option) => `--${option.name}`)
  const { isLocation } = require('./location.js')
  // A place, or the value of an option, is for the shell to complete, with files.
  if (valueOf || isLocation(typed)) return []
  const { name: wanted = '' } = positionalsOf(command)[words.length] ?? {}
  if (wanted === 'shell') return ['bash', 'zsh', 'fish']
  if (wanted === 'encoding') return ['json', 'gzip', 'zstd', 'delta']
  if (!/session|before|after/.test(wanted) || wanted === 'new-session') return []
  return stored(store ?? (process.env.WAYMARK_STORE || undefined), (each) => namesOf(each, wanted, typed, words))
}

/** The words of a command line without its options, the place that they name, and the option that a value is wanted for. */
function sorted(rest, options) {
  const words = []
  let store
  let valueOf
  let isWordsOnly = false
  for (const word of rest) {
    if (valueOf) {
      if (valueOf === 'store') store = word
      valueOf = undefined
    } else if (word === '--' && !isWordsOnly) isWordsOnly = true
    else if (word.startsWith('-') && word !== '-' && !isWordsOnly) {
      const option = options.find(({ name, short }) => word === `--${name}` || word === `-${short}`)
      valueOf = option?.value && option.name
      if (word.startsWith('--store=')) store = word.slice('--store='.length)
    } else words.push(word)
  }
  return { words, store, valueOf, isWordsOnly }
}

/** What a store has; nothing if there is none, or it cannot be read. */
async function stored(location, namesIn) {
  const { openStore } = require('./location.js')
  const store = await openStore(location).catch(() => undefined)
  if (!store) return []
  try {
    const names = await namesIn(store)
    // What has a control character cannot be typed, and could be an order to the terminal.
    return names.filter((each) => !/\p{Cc}/u.test(each))
  } catch {
    return []
  } finally {
    await store.close()
  }
}

/** Sessions, and behind a slash the labels and ids of checkpoints; without one, those of the session that was named before. */
async function namesOf(store, wanted, typed, words) {
  const { split } = require('./references.js')
  const { session, ref } = split(typed)
  if (ref !== undefined) return (await refsOf(store, session)).map((each) => `${session}/${each}`)
  const ids = await sessionsOf(store)
  const isOptional = wanted.includes('[/')
  const names = wanted.includes('/') && !isOptional ? ids.map((id) => `${id}/`) : ids
  return wanted === '[session/]after' ? [...(await refsOf(store, split(words[0]).session)), ...names] : names
}

async function sessionsOf(store) {
  return (await store.sessionsInfo()).map(({ id }) => id)
}

async function refsOf(store, session) {
  const { checkpointsOf } = require('./references.js')
  const checkpoints = await checkpointsOf(store, session)
  const labels = checkpoints.flatMap(({ info }) => (info?.label ? [info.label] : []))
  return [...new Set(['latest', ...labels, ...checkpoints.map(({ id }) => id)])]
}

module.exports = { complete }
