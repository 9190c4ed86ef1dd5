// The commands that there are, in the order in which help shows them. Each is a file that describes itself: see `ls.js`.

'use strict'

/** What each is for. It is here because the list of all is to be had without loading all. */
const SUMMARIES = {
  ls: 'The sessions of a store, or the checkpoints of one.',
  log: 'The history of a session with its forks, drawn, newest first.',
  show: 'The task tree, the agents, the errors and the metrics of a session or checkpoint.',
  diff: 'What changed from one checkpoint to another: tasks, agents, context and session.',
  stats: 'Bytes by session and kind, and how they grew over time.',
  watch: 'A live view that is redrawn as checkpoints come; Ctrl-C or q ends it.',
  verify: 'Whether everything is whole, of a session or of all: reads and checks every byte.',
  recover: 'Make a session what its newest whole checkpoint says, and name those that are damaged.',
  restore: 'Make a session what one of its checkpoints says.',
  fork: 'Start a new session from a checkpoint of another, which stays as it is.',
  label: 'Give a checkpoint a label, another one, or none.',
  pin: 'Keep a checkpoint, whatever retention says; with --off no longer.',
  prune: 'Remove the checkpoints that do not stay, of a session or of all.',
  convert: 'Store the checkpoints of a session, or of all, in another encoding.',
  export: 'Write a session into one compressed file that can be carried.',
  import: 'Bring in a session that export wrote.',
  copy: 'Copy sessions into another store, whatever kind it is.',
  rm: 'Remove a session with everything below it, or one checkpoint.',
  demo: 'See it work: a swarm is killed in the middle and finishes in a new process.',
  completion: 'A script that lets bash, zsh or fish complete commands, options, sessions and checkpoints.',
}

const NAMES = Object.keys(SUMMARIES)

/** One command: only its own file is loaded. */
function commandOf(name) {
  return Object.hasOwn(SUMMARIES, name) ? { summary: SUMMARIES[name], ...require(`./commands/${name}.js`) } : undefined
}

/** All of them, for completion and the README. */
function allCommands() {
  return NAMES.map(commandOf)
}

module.exports = { NAMES, SUMMARIES, allCommands, commandOf }
