// Real power cuts: a file system on a loop device is shut down during writes, and mounted again. Alternatives run on the same
// harness, and so do builds without some syncs.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { findings, newHistory, someTime, startWriter } from '../harness.mjs'
import { canMount, skipped } from '../machine.mjs'
import { weakenedAddon } from '../weakened.mjs'

const FILE_SYSTEMS = { ext4: ['mke2fs', ['-q', '-F', '-t', 'ext4']], xfs: ['mkfs.xfs', ['-q', '-f']] }
const CUTS = 160
const CUTS_OF_OTHERS = 15
const CUTS_UNTIL_CAUGHT = 60
const OTHERS = {
  'write-file-atomic': 'write-file-atomic 7.0.1',
  rename: 'fs.writeFile and rename',
  sqlite: 'node:sqlite, WAL',
}

export async function run() {
  const refusal = canMount()
  if (refusal) return [skipped('power cuts on ext4 and xfs', refusal)]
  const cutter = compileCutter()
  const rows = await Promise.all(Object.keys(FILE_SYSTEMS).map((name) => onFileSystem(name, cutter)))
  return rows.flat()
}

async function onFileSystem(name, cutter) {
  const [make] = FILE_SYSTEMS[name]
  if (!isInstalled(make)) return [skipped(`power cuts on ${name}`, `${make} is not installed`)]
  const disk = new LoopDisk(name, cutter)
  try {
    const rows = [{ what: `power cuts, ${name}`, ...(await cuts(disk, 'ours', CUTS)) }]
    for (const weakened of ['file-sync', 'directory-sync']) {
      const addon = weakenedAddon()
      const { tried, found } = await cuts(disk, 'ours', CUTS_UNTIL_CAUGHT, { addon, weakened, pace: 'calm' }, true)
      rows.push({ what: `the same without ${weakened}`, tried, found, mustFind: true })
    }
    for (const [kind, title] of Object.entries(OTHERS)) {
      rows.push({ what: `${title}, ${name}`, ...(await cuts(disk, kind, CUTS_OF_OTHERS)), isOther: true })
    }
    return rows
  } finally {
    disk.remove()
  }
}

async function cuts(disk, kind, count, options = {}, stopAtFirst = false) {
  disk.format()
  const directory = join(disk.mountPoint, kind)
  mkdirSync(directory)
  execFileSync('sync', ['-f', disk.mountPoint])
  const history = newHistory(kind, directory)
  const found = []
  let cut = 0
  for (const isOver = () => cut >= count || (stopAtFirst && found.length > 0); !isOver(); cut += 1) {
    const pace = options.pace ?? (cut % 2 === 0 ? 'calm' : 'busy')
    const writer = await startWriter(history, { ...options, pace })
    await someTime(pace === 'calm' ? 250 : 120)
    writer.stopListening()
    disk.cut(cut % 4 === 0 ? 1 : 2)
    await writer.kill()
    disk.mountAgain()
    const finding = await findings(history, pace)
    if (finding.length > 0) {
      found.push(...finding)
      // Reset: each cut is judged separately.
      history.checkpoints = []
      history.results = {}
    }
  }
  if (history.writes < cut) found.push('too few writes')
  return { tried: `${cut} cuts, ${history.writes} acknowledged writes`, found }
}

/** A file system in a file, in memory if possible. */
class LoopDisk {
  #name
  #cutter
  #home
  #image

  constructor(name, cutter) {
    this.#name = name
    this.#cutter = cutter
    this.#home = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'waymark-power-'))
    this.#image = join(this.#home, 'image')
    this.mountPoint = join(this.#home, 'mount')
    mkdirSync(this.mountPoint)
  }

  format() {
    this.#unmount()
    rmSync(this.#image, { force: true })
    execFileSync('truncate', ['-s', '320M', this.#image])
    const [make, args] = FILE_SYSTEMS[this.#name]
    execFileSync(make, [...args, this.#image], { stdio: 'ignore' })
    this.#mount()
  }

  cut(flag) {
    execFileSync(this.#cutter, [this.mountPoint, String(flag)])
  }

  mountAgain() {
    this.#unmount()
    this.#mount()
  }

  remove() {
    this.#unmount()
    rmSync(this.#home, { recursive: true, force: true })
  }

  #mount() {
    execFileSync('mount', ['-o', 'loop', this.#image, this.mountPoint])
  }

  #unmount() {
    try {
      execFileSync('umount', [this.mountPoint], { stdio: 'ignore' })
    } catch {
      // It is not mounted.
    }
  }
}

function compileCutter() {
  const binary = join(mkdtempSync(join(tmpdir(), 'waymark-cut-')), 'cut')
  execFileSync('cc', ['-o', binary, fileURLToPath(new URL('../cut.c', import.meta.url))])
  return binary
}

function isInstalled(command) {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
