// What could come next on a command line that is not finished: what the scripts of `completion` ask.

'use strict'

const { optionsOf, positionalsOf } = require('./arguments.js')
const { NAMES, commandOf } = require('./commands.js')

/** The candidates, a line each. `argv` is the shell, the index of the word that is being typed, and all words. */
async function complete([shell, index, ...words]) {
  const isBash = shell === 'bash'
  const { typed, before } = isBash
    ? rejoined(words, Number(index))
    : { typed: words[index] ?? '', before: words.slice(1, index) }
  const candidates = await candidatesFor(before, typed)
  const fitting = candidates.filter((candidate) => candidate.startsWith(typed))
  // Bash takes candidates as they are, and replaces only what stands behind the last colon.
  const start = isBash ? typed.lastIndexOf(':') + 1 : 0
  return fitting.map((candidate) => `${isBash ? escaped(candidate.slice(start)) : candidate}\n`).join('')
}

function escaped(text) {
  return text.replaceAll(/[^\p{L}\p{N}_./:~@%+,=-]/gu, String.raw`\$&`)
}

/** Bash makes three words of `sqlite:x`. */
function rejoined(words, index) {
  const joined = []
  let isOpen = false
  for (const word of words.slice(1, index + 1)) {
    const isBreak = word === ':' || word === '='
    if ((isBreak || isOpen) && joined.length > 0) joined.push(joined.pop() + word)
    else joined.push(word)
    isOpen = isBreak
  }
  const plain = joined.map((word) => word.replaceAll(/\\(.)/g, '$1'))
  return { typed: plain.pop() ?? '', before: plain }
}

async function candidatesFor([name, ...rest], typed) {
  if (name === undefined) return typed.startsWith('-') ? ['--help', '--version'] : NAMES
  const command = commandOf(name)
  if (!command) return name === 'help' && rest.length === 0 ? NAMES : []
  const options = optionsOf(command)
  if (typed.startsWith('-')) return options.map((option) => `--${option.name}`)
  const { words, store, isValue } = sorted(rest, options)
  const { isLocation } = require('./location.js')
  // A place, or the value of an option, is for the shell to complete, with files.
  if (isValue || isLocation(typed)) return []
  const { name: wanted = '' } = positionalsOf(command)[words.length] ?? {}
  if (wanted === 'shell') return ['bash', 'zsh', 'fish']
  if (wanted === 'encoding') return ['json', 'gzip', 'zstd', 'delta']
  return /session|before|after/.test(wanted) && wanted !== 'new-session' ? stored(store, wanted, typed) : []
}

/** The words of a command line without its options, and the place that they name. */
function sorted(rest, options) {
  const words = []
  let store
  let isValue = false
  for (const word of rest) {
    if (isValue) {
      if (isValue === 'store') store = word
      isValue = false
    } else if (word.startsWith('-') && word !== '-') {
      const option = options.find(({ name, short }) => word === `--${name}` || word === `-${short}`)
      isValue = option?.value ? option.name : false
      if (word.startsWith('--store=')) store = word.slice('--store='.length)
    } else words.push(word)
  }
  return { words, store, isValue }
}

/** Sessions, and behind a slash the labels and ids of checkpoints. */
async function stored(location, wanted, typed) {
  const { openStore } = require('./location.js')
  const store = await openStore(location ?? (process.env.WAYMARK_STORE || undefined)).catch(() => undefined)
  if (!store) return []
  try {
    const { split, checkpointsOf } = require('./references.js')
    const { session, ref } = split(typed)
    const names = ref === undefined ? await sessionsOf(store, wanted) : await refsOf(store, session, checkpointsOf)
    // What has a control character cannot be typed, and could be an order to the terminal.
    return names.filter((each) => !/\p{Cc}/u.test(each))
  } catch {
    return []
  } finally {
    await store.close()
  }
}

async function sessionsOf(store, wanted) {
  const ids = (await store.sessionsInfo()).map(({ id }) => id)
  return wanted.includes('/') && !wanted.includes('[/') ? ids.map((id) => `${id}/`) : ids
}

async function refsOf(store, session, checkpointsOf) {
  const checkpoints = await checkpointsOf(store, session)
  const labels = checkpoints.flatMap(({ info }) => (info?.label ? [info.label] : []))
  const refs = ['latest', ...new Set(labels), ...checkpoints.map(({ id }) => id)]
  return refs.map((ref) => `${session}/${ref}`)
}

module.exports = { complete }
