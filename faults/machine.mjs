// Detects what this machine supports.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Why mounting is not possible; `null` if it is. */
export function canMount() {
  if (process.platform !== 'linux') return 'it needs Linux'
  const directory = mkdtempSync(join(tmpdir(), 'waymark-mount-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', directory], { stdio: 'pipe' })
    execFileSync('umount', [directory])
    return null
  } catch (error) {
    return `mounting is not allowed here (${String(error.stderr ?? error.message).trim()})`
  } finally {
    rmdirSync(directory)
  }
}

/** Why fault injection is not possible; `null` if it is. */
export function canInject() {
  try {
    execFileSync('strace', ['-qq', '-e', 'trace=none', 'true'], { stdio: 'pipe' })
    return null
  } catch {
    return 'strace is not installed, or may not be used'
  }
}

/** A row for a skipped part. */
export function skipped(what, why) {
  return { what, tried: `skipped: ${why}`, found: [], isSkipped: true }
}
