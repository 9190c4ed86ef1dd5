// Snapshots of directories.

import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Whether a file exists only to be locked. */
export const isLockFile = (name) => /(^|[/\\])\.lock(-\d+)?$/.test(name)

/** The bytes of files and targets of links below a directory by name, without lock files. */
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
