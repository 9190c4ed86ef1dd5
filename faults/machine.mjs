// What this machine allows.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Why nothing can be mounted here; nothing if it can. */
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

/** Why calls cannot be made to fail here; nothing if they can. */
export function canInject() {
  try {
    execFileSync('strace', ['-qq', '-e', 'trace=none', 'true'], { stdio: 'pipe' })
    return null
  } catch {
    return 'strace is not installed, or may not be used'
  }
}

/** A row for what could not be tried. */
export function skipped(what, why) {
  return { what, tried: `skipped: ${why}`, found: [], isSkipped: true }
}
