// A build with defects that WAYMARK_WEAKENED switches on.

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { ROOT } from './harness.mjs'

const DIRECTORY = join(ROOT, 'faults', '.weakened')
let isBuilt = false

/** The loader of the weakened build. */
export function weakenedAddon() {
  if (!isBuilt) {
    mkdirSync(DIRECTORY, { recursive: true })
    // The loader is CommonJS, whatever the directory above says.
    writeFileSync(join(DIRECTORY, 'package.json'), '{"type":"commonjs"}')
    const napi = join(ROOT, 'node_modules/@napi-rs/cli/dist/cli.js')
    const args = [napi, 'build', '--platform', '--features', 'weakened', '--output-dir', 'faults/.weakened']
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'pipe' })
    isBuilt = true
  }
  return join(DIRECTORY, 'index.js')
}
