// Everything in a directory, to be compared with everything in it later.

import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Whether a file is there to be locked, and says at most by which process. */
export const isLockFile = (name) => /(^|[/\\])\.lock(-\d+)?$/.test(name)

/** What every name below a directory holds: the bytes of a file, the target of a link. Lock files are left out. */
export function snapshotOf(directory) {
  const snapshot = {}
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (isLockFile(entry.name)) continue
    const path = join(directory, entry.name)
    if (entry.isDirectory()) snapshot[`${entry.name}/`] = snapshotOf(path)
    else if (entry.isSymbolicLink()) snapshot[entry.name] = `-> ${readlinkSync(path)}`
    else snapshot[entry.name] = readFileSync(path, 'base64')
  }
  return snapshot
}
