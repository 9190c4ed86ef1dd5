// Positional arguments and options that several commands take.

'use strict'

const SESSION = { name: 'session', description: 'A session id, or a unique prefix of one.' }

const ONE_SESSION = {
  name: 'session',
  optional: true,
  description: 'Only this session. A single argument that looks like a location is one.',
}

const CHECKPOINT = {
  name: 'session/checkpoint',
  description: 'The checkpoint: an id, a unique prefix, a label, latest or latest~2.',
}

/** The encodings of a checkpoint. */
const ENCODINGS = ['json', 'gzip', 'zstd', 'delta']

module.exports = { CHECKPOINT, ENCODINGS, ONE_SESSION, SESSION }
