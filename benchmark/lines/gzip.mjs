// The compressor alone, on the bytes of a checkpoint, against Node's zlib at the same level.

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import zlib from 'node:zlib'

import { alternate, clear, line, newLocation } from '../measure.mjs'
import { makeState } from '../states.mjs'

/** Repetitions of each side in a row, so that none is measured while it wakes up. */
const TIMES = 5

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export async function gzip() {
  const lines = []
  for (const ascii of [true, false]) {
    const bytes = Buffer.from(JSON.stringify(makeState(1000, { ascii })))
    const file = newLocation()
    writeFileSync(file, bytes)
    const ours = await startOurs(file)
    const sizes = {}
    const samples = await alternate(15, {
      ours: async () => {
        const { ms, size } = await ours.compress()
        sizes.ours = size
        return ms
      },
      theirs: async () => {
        const started = performance.now()
        for (let time = 0; time < TIMES; time += 1) {
          sizes.theirs = (await promisify(zlib.gzip)(bytes, { level: 6 })).length
        }
        return (performance.now() - started) / TIMES
      },
    })
    ours.end()
    clear(file)
    const percent = (sizes.ours / sizes.theirs - 1) * 100
    const found = line(
      `gzip level 6, 1,000 tasks, ${ascii ? 'ASCII' : 'mixed text'}, against Node's zlib on the same bytes`,
      samples,
      { atLeast: 1.8 },
      `ours is ${Math.abs(percent).toFixed(1)} % ${percent > 0 ? 'larger' : 'smaller'}; 1 % larger would be a miss`,
    )
    lines.push({ ...found, reached: found.reached && percent <= 1 })
  }
  return lines
}

/** A process that compresses the file as often as it is told. */
async function startOurs(file) {
  const command = ['run', '--quiet', '--release', '--no-default-features', '--example', 'gzip', '--', file]
  const child = spawn('cargo', command, { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'] })
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async compress() {
      child.stdin.write(`${TIMES}\n`)
      const { value, done } = await answers.next()
      if (done) throw new Error('the compressor ended')
      const [ms, size] = value.split(' ').map(Number)
      return { ms: ms / TIMES, size }
    },
    end: () => child.stdin.end(),
  }
}
