// Runtimes from the npm registry, kept in .runtimes/.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const DIRECTORY = fileURLToPath(new URL('../.runtimes', import.meta.url))

const PACKAGES = {
  node20: { install: 'node@20', binary: 'node' },
  node22: { install: 'node@22', binary: 'node' },
  node24: { install: 'node@24', binary: 'node' },
  node26: { install: 'node@26', binary: 'node' },
  bun: { install: 'bun@1.4', binary: 'bun' },
  deno: { install: 'deno@2.9', binary: 'deno' },
}

export const RUNTIMES = Object.keys(PACKAGES)

/** The path of a runtime's binary, which is installed first if necessary. */
export function runtime(name) {
  const { install, binary } = PACKAGES[name]
  const prefix = join(DIRECTORY, name)
  const path = join(prefix, 'node_modules', '.bin', binary)
  if (!existsSync(path)) {
    execFileSync('npm', ['install', '--silent', '--no-save', '--prefix', prefix, install], { stdio: 'inherit' })
  }
  return path
}
