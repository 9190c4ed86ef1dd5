// The list of commands, in the order in which help shows them. Each command is a file that describes itself: see `ls.js`.

'use strict'

/** The summaries are here so that the overview does not load every command. */
const SUMMARIES = {
  ls: 'List the sessions of a store, or the checkpoints of one session.',
  log: 'Draw the history of a session with its forks, newest first.',
  show: 'Show the task tree, agents, errors and metrics of a session or checkpoint.',
  diff: 'Compare two checkpoints: tasks, agents, context and session.',
  stats: 'Show bytes by session and kind, and their growth over time.',
  watch: 'Show a live view that updates with each checkpoint; Ctrl-C or q ends it.',
  verify: 'Read and check every byte of one session or of all.',
  recover: 'Restore the newest whole checkpoint of a session, and name the damaged ones.',
  restore: 'Replace the saved state of a session with one of its checkpoints.',
  fork: 'Start a new session from a checkpoint of another, which stays unchanged.',
  label: 'Set, change or remove the label of a checkpoint.',
  pin: 'Exempt a checkpoint from retention; --off undoes it.',
  prune: 'Delete the checkpoints that retention does not keep, of one session or of all.',
  convert: 'Store the checkpoints of one session or of all in another encoding.',
  export: 'Write a session to one compressed file.',
  import: 'Create a session from an export file.',
  copy: 'Copy sessions to another store, of any backend.',
  rm: 'Delete a session with all its data, or one checkpoint.',
  demo: 'Run a demonstration: a swarm is killed half way and finishes in a new process.',
  completion: 'Print a completion script for bash, zsh or fish.',
}

const NAMES = Object.keys(SUMMARIES)

/** One command; loads only its own file. `undefined` if there is none of that name. */
function commandOf(name) {
  return Object.hasOwn(SUMMARIES, name) ? { summary: SUMMARIES[name], ...require(`./${name}.js`) } : undefined
}

/** All commands, for the README and the tests. */
function allCommands() {
  return NAMES.map(commandOf)
}

module.exports = { NAMES, SUMMARIES, allCommands, commandOf }
