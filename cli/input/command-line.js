// A command to copy: one that does what is said of it, wherever it is typed.

'use strict'

/** What no shell takes for anything but a part of a word. */
const PLAIN = /^[\p{L}\p{N}_@%+=:,./-][\p{L}\p{N}_@%+=:,./~-]*$/u

/** `waymark show 'my session' --store /srv/sessions`; the store is named unless it is the one that is looked at without a word. */
function commandLine(store, name, words = [], options = []) {
  const all = [...options, ...placeOf(store)]
  const hasDash = words.some((word) => word.startsWith('-'))
  const line = hasDash ? [name, ...all, '--', ...words] : [name, ...words, ...all]
  return ['waymark', ...line.map(quoted)].join(' ')
}

/** A word as a shell takes it for one. */
function quoted(word) {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function placeOf(store) {
  if (!store) return []
  const place = store.getBaseDir()
  return place === usualPlace() ? [] : ['--store', place]
}

function usualPlace() {
  const { CheckpointStore } = require('../index.js')
  try {
    return new CheckpointStore(process.env.WAYMARK_STORE || undefined).getBaseDir()
  } catch {
    // What is no place at all.
    return undefined
  }
}

module.exports = { commandLine, quoted }
