// Reads the directory layout with Node.js modules alone, as the original store or
// another program does.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'

export function readCheckpointText(path) {
  const bytes = readFileSync(path)
  return (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
}

/** Rewrites a checkpoint file, plain or gzipped; the change must have an effect. */
export function rewriteCheckpoint(path, change) {
  const text = readCheckpointText(path)
  const changed = change(text)
  assert.notEqual(changed, text)
  writeFileSync(path, path.endsWith('.gz') ? gzipSync(changed) : changed)
}

export function checkpointFiles(base, sessionId) {
  const directory = join(base, sessionId, 'checkpoints')
  const names = readdirSync(directory).filter((name) => /\.json(\.gz)?$/.test(name))
  return names.map((name) => join(directory, name))
}

/** The checksum that the original store computes from a parsed checkpoint. */
export function originalChecksum({ sessionId, timestamp, taskTree, agentStates }) {
  const covered = JSON.stringify({ sessionId, timestamp, taskTree, agentStates })
  return createHash('sha256').update(covered).digest('hex')
}

/** The member `integrity`, computed from a parsed checkpoint: the checksum covers the two large values. */
export function integrityOf({ integrity: _, ...covered }) {
  const leftOut = new Set(['taskTree', 'agentStates'])
  const members = Object.entries(covered).map(
    ([name, value]) => `"${name}":${leftOut.has(name) ? '' : JSON.stringify(value)}`,
  )
  return createHash('sha256')
    .update(`{${members.join(',')}}`)
    .digest('hex')
}
