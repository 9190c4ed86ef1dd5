// Formats a `waymark` command line to copy from a message.

'use strict'

/** Words that every shell takes literally. */
const UNQUOTED = /^[\p{L}\p{N}_@%+=:,./-][\p{L}\p{N}_@%+=:,./~-]*$/u

/** `waymark show 'my session' --store /srv/sessions`; the store is left out if it is the default. */
function commandLine(store, name, args = [], options = []) {
  const allOptions = [...options, ...storeOption(store)]
  const hasDash = args.some((arg) => arg.startsWith('-'))
  const words = hasDash ? [name, ...allOptions, '--', ...args] : [name, ...args, ...allOptions]
  return ['waymark', ...words.map(shellQuote)].join(' ')
}

function shellQuote(word) {
  return UNQUOTED.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function storeOption(store) {
  if (!store) return []
  const location = store.getBaseDir()
  return location === defaultLocation() ? [] : ['--store', location]
}

function defaultLocation() {
  const { CheckpointStore } = require('../../index.js')
  try {
    return new CheckpointStore(process.env.WAYMARK_STORE || undefined).getBaseDir()
  } catch {
    // WAYMARK_STORE is not a valid location.
    return undefined
  }
}

module.exports = { commandLine, shellQuote }
