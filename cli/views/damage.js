// What is not whole, and what helps.

'use strict'

const { commandLine } = require('./command-line.js')

const CODES = new Set(['WAYMARK_CORRUPT', 'WAYMARK_CHECKSUM_MISMATCH'])

/** What a restore writes anew. */
const REPLACED = /(?:^|[/\\])(?:session|task-tree)(?:\.json)?$/

/** What could not be read may be whole, for somebody who may read it or a newer version. */
function isDamaged({ code }) {
  return CODES.has(code)
}

function conditionOf(item) {
  return isDamaged(item) ? 'damaged' : 'unreadable'
}

/** Why something is not whole, without the path, which would leave no room for it. */
function reasonOf(error) {
  return error.replace(/^.* is damaged: /s, '')
}

/** `2 damaged, 1 unreadable`. */
function tally(items) {
  const damaged = items.filter(isDamaged).length
  const unreadable = items.length - damaged
  return [damaged > 0 ? `${damaged} damaged` : '', unreadable > 0 ? `${unreadable} unreadable` : '']
    .filter(Boolean)
    .join(', ')
}

/** What to do about a session that is not whole, a sentence each; `verification` is what `verifySession()` gives. */
function remediesFor(store, { sessionId, checkpoints, agentCheckpoints, files }) {
  const broken = (items) => items.filter(({ whole }) => !whole)
  const bad = broken([...checkpoints, ...agentCheckpoints, ...files])
  const firstWhole = checkpoints.findIndex(({ whole }) => whole)
  const newer = firstWhole < 0 ? checkpoints : checkpoints.slice(0, firstWhole)
  const older = checkpoints.slice(newer.length).find((item) => !item.whole && isDamaged(item))
  const documents = broken(files).filter(isDamaged)
  const isReplaceable = documents.some(({ path }) => REPLACED.test(path))
  const others = documents.filter(({ path }) => !REPLACED.test(path))
  const sentences = []
  if (bad.some(({ code }) => code === 'WAYMARK_NEWER_VERSION'))
    sentences.push('A newer waymark wrote it: update waymark.')
  else if (!bad.every(isDamaged)) {
    sentences.push('What is unreadable may be whole: look as the user that owns it before anything is removed.')
  }
  if ((newer.length > 0 || isReplaceable) && newer.every(isDamaged)) {
    const recover = commandLine(store, 'recover', [sessionId], newer.length > 0 ? ['--quarantine'] : [])
    sentences.push(
      firstWhole < 0
        ? 'No checkpoint is whole: bring the session back from a copy or an export.'
        : `${recover} restores its newest checkpoint that is whole.`,
    )
  }
  if (older) {
    const remove = commandLine(store, 'rm', [`${sessionId}/${older.id}`])
    sentences.push(`${remove} removes one that nothing can be done with.`)
  }
  if (others.length > 0) {
    sentences.push(`No checkpoint has ${others[0].path} in it: bring it back from a copy, or remove it.`)
  }
  if (agentCheckpoints.some((item) => !item.whole && isDamaged(item))) {
    sentences.push('Agents go on from their newest checkpoint that is whole: nothing has to be done.')
  }
  return sentences
}

module.exports = { conditionOf, isDamaged, reasonOf, remediesFor, tally }
