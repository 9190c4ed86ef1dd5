// Reports damaged and unreadable items, and what to do about them.

'use strict'

const { commandLine } = require('../input/command-line.js')

const DAMAGE_CODES = new Set(['WAYMARK_CORRUPT', 'WAYMARK_CHECKSUM_MISMATCH'])
const DENIED_CODES = new Set(['EACCES', 'EPERM'])

/** The documents that a restore replaces. */
const RESTORED_DOCUMENTS = new Set(['session', 'session.json', 'task-tree', 'task-tree.json'])

/** An item that could not be read may still be whole: another user or a newer version may be able to read it. */
function isDamaged({ code }) {
  return DAMAGE_CODES.has(code)
}

/** Whether the system denied access to what was to be read or written. */
function isAccessDenied({ cause }) {
  return DENIED_CODES.has(cause?.code)
}

function damageState(item) {
  return isDamaged(item) ? 'damaged' : 'unreadable'
}

/** One line on what is wrong with an item. Its name replaces its path, which is too long for a line. */
function damageLine({ path, error }, name) {
  return path && error.includes(path) ? error.replaceAll(path, () => name) : `${name}: ${error}`
}

/** The last part of a path. */
function baseName(path) {
  return path.split(/[/\\]/).at(-1)
}

/** `2 damaged, 1 unreadable`. */
function countDamage(items) {
  const damaged = items.filter(isDamaged).length
  const unreadable = items.length - damaged
  return [damaged > 0 ? `${damaged} damaged` : '', unreadable > 0 ? `${unreadable} unreadable` : '']
    .filter(Boolean)
    .join(', ')
}

/** What to do about a session that is not whole, one sentence each; takes the result of `verifySession()`. */
function remedies(store, { sessionId, checkpoints, agentCheckpoints, files }) {
  const failed = (items) => items.filter(({ whole }) => !whole)
  const all = failed([...checkpoints, ...agentCheckpoints, ...files])
  const firstWhole = checkpoints.findIndex(({ whole }) => whole)
  const newer = firstWhole < 0 ? checkpoints : checkpoints.slice(0, firstWhole)
  const older = checkpoints.slice(newer.length).find((item) => !item.whole && isDamaged(item))
  const documents = failed(files).filter(isDamaged)
  const isRestored = ({ path }) => RESTORED_DOCUMENTS.has(baseName(path))
  const others = documents.filter((document) => !isRestored(document))
  const sentences = []
  if (all.some(({ code }) => code === 'WAYMARK_NEWER_VERSION'))
    sentences.push('It was written by a newer version: update waymark.')
  else if (!all.every(isDamaged)) {
    sentences.push('Unreadable items may be whole: verify as the user that owns them before you delete anything.')
  }
  if ((newer.length > 0 || documents.some(isRestored)) && newer.every(isDamaged)) {
    const recover = commandLine(store, 'recover', [sessionId], newer.length > 0 ? ['--quarantine'] : [])
    sentences.push(
      firstWhole < 0
        ? 'No checkpoint is whole: restore the session from a copy or an export.'
        : `${recover} restores the newest checkpoint that is whole.`,
    )
  }
  if (older) {
    const remove = commandLine(store, 'rm', [`${sessionId}/${older.id}`])
    sentences.push(`${remove} removes a checkpoint that cannot be repaired.`)
  }
  if (others.length > 0) {
    sentences.push(`No checkpoint contains ${others[0].path}: restore it from a copy, or delete it.`)
  }
  if (agentCheckpoints.some((item) => !item.whole && isDamaged(item))) {
    sentences.push('Agents continue from their newest checkpoint that is whole: nothing has to be done.')
  }
  return sentences
}

module.exports = { baseName, countDamage, damageLine, damageState, isAccessDenied, isDamaged, remedies }
