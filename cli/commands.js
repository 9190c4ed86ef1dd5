// The commands that there are, in the order in which help shows them. Each is a file that describes itself: see `ls.js`.

'use strict'

const NAMES = [
  'ls',
  'log',
  'show',
  'diff',
  'stats',
  'watch',
  'verify',
  'recover',
  'restore',
  'fork',
  'label',
  'pin',
  'prune',
  'convert',
  'export',
  'import',
  'copy',
  'rm',
  'demo',
  'completion',
]

/** One command: only its own file is loaded. */
function commandOf(name) {
  return NAMES.includes(name) ? require(`./commands/${name}.js`) : undefined
}

/** All of them, for help, completion and the README. */
function allCommands() {
  return NAMES.map(commandOf)
}

module.exports = { NAMES, allCommands, commandOf }
