// The build with deliberate defects, which WAYMARK_WEAKENED enables.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { ROOT } from './harness.mjs'

const DIRECTORY = join(ROOT, 'faults', '.weakened')
let isBuilt = false

/** Loads that build: the classes of the addon, without the additions of `lib/`. */
export function weakenedAddon() {
  build()
  return join(DIRECTORY, 'index.js')
}

/** The environment for a process that loads that build with one defect enabled. */
export function weakenedBy(defect) {
  build()
  const binary = readdirSync(DIRECTORY).find((name) => name.endsWith('.node'))
  return { NAPI_RS_NATIVE_LIBRARY_PATH: join(DIRECTORY, binary), WAYMARK_WEAKENED: defect }
}

function build() {
  if (!isBuilt) {
    mkdirSync(DIRECTORY, { recursive: true })
    // The loader is CommonJS, whatever the package.json above says.
    writeFileSync(join(DIRECTORY, 'package.json'), '{"type":"commonjs"}')
    const napi = join(ROOT, 'node_modules/@napi-rs/cli/dist/cli.js')
    const args = [napi, 'build', '--platform', '--features', 'weakened', '--output-dir', 'faults/.weakened']
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'pipe' })
    isBuilt = true
  }
}
