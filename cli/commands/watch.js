// Shows new checkpoints as they are written.

'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const { ONE_SESSION } = require('../input/positionals.js')
const { standardStream } = require('../terminal/terminal.js')
const { ago, bytes, count, moment } = require('../terminal/units.js')
const { jsonDocument } = require('../views/json-document.js')

const DEFAULT_INTERVAL_MS = 1000
const MIN_INTERVAL_MS = 100
/** The maximum delay of a timer. */
const MAX_INTERVAL_MS = 2 ** 31 - 1
const RECENT_CHECKPOINTS = 8
/** `q`, Ctrl-C and Ctrl-D: in raw mode the terminal does not turn Ctrl-C into a signal. */
const QUIT_KEYS = ['q', 'Q', '\u0003', '\u0004']

module.exports = {
  name: 'watch',
  positionals: [ONE_SESSION],
  options: [
    {
      name: 'interval',
      short: 'i',
      value: 'duration',
      description: 'The polling interval, such as 500ms or 5s; default 1s.',
    },
  ],
  json: { name: 'json', description: 'Print one JSON document per line for each new checkpoint.' },
  notes: ['Without a terminal, it prints one line for each new checkpoint.'],
  examples: ['waymark watch', 'waymark watch nightly --interval 5s', 'waymark watch nightly --json'],
  run,
}

async function run(context) {
  const { durationMs } = require('../input/quantities.js')
  const { interval } = context.options
  const intervalMs = interval === undefined ? DEFAULT_INTERVAL_MS : durationMs('--interval', interval)
  const store = await context.store()
  const { optionalSessionId } = require('../input/references.js')
  const session = await optionalSessionId(store, context.args.session)
  const isLive = context.out.canRedraw && !context.options.json
  const view = isLive ? liveView(context.out, store, session) : lineView(context, store, session)
  const quit = quitSignal(isLive)
  try {
    while (!quit.signal.aborted) {
      await view.update()
      await pause(Math.min(Math.max(MIN_INTERVAL_MS, intervalMs), MAX_INTERVAL_MS), undefined, {
        signal: quit.signal,
      }).catch(() => {})
    }
  } finally {
    view.close()
    quit.close()
  }
  return {}
}

/** Aborts on a signal, on a failed write, or on a key where the terminal can be read in raw mode. */
function quitSignal(hasKeys) {
  const { stdin } = process
  const stdout = standardStream('stdout')
  const controller = new AbortController()
  const stop = () => controller.abort()
  const onKey = (keys) => {
    if (QUIT_KEYS.some((key) => keys.includes(key))) stop()
  }
  const readsKeys = hasKeys && stdin.isTTY
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, stop)
  // The reader has closed the pipe.
  stdout.on('error', stop)
  if (readsKeys) stdin.setRawMode(true).setEncoding('utf8').on('data', onKey)
  return {
    signal: controller.signal,
    close() {
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(name, stop)
      stdout.off('error', stop)
      if (readsKeys) stdin.off('data', onKey).setRawMode(false).pause()
    },
  }
}

/** Finds the checkpoints that are new since the previous poll. */
class CheckpointPoller {
  #store
  #session
  #newest

  constructor(store, session) {
    this.#store = store
    this.#session = session
  }

  /** New checkpoints, oldest first, each with its session; none in the first poll. */
  async poll() {
    const { infosOf } = require('../input/references.js')
    const infos = await infosOf(this.#store, this.#session)
    const before = this.#newest
    // Keep sessions that are missing now: a store may be unavailable for a moment, and its checkpoints are not new afterwards.
    this.#newest = new Map(before)
    for (const { id, newestCheckpoint } of infos) if (newestCheckpoint) this.#newest.set(id, newestCheckpoint)
    const added = []
    for (const { id, newestCheckpoint } of before ? infos : []) {
      const last = before.get(id)
      if (!newestCheckpoint || newestCheckpoint.id === last?.id) continue
      const { checkpoints } = await this.#store.listCheckpointInfo(id, last ? { since: last.timestamp } : {})
      // Ids are ordered, even within one millisecond.
      const newer = checkpoints.filter((info) => !last || info.id > last.id)
      for (const info of newer) added.push({ sessionId: id, ...info })
    }
    return { infos, added: added.toSorted((a, b) => a.timestamp - b.timestamp) }
  }
}

/** One line for each new checkpoint, for files and pipes. */
function lineView({ options, out, err }, store, session) {
  const poller = new CheckpointPoller(store, session)
  let isFirst = true
  return {
    async update() {
      const { infos, added } = await poller.poll()
      if (isFirst) {
        const scope = session === undefined ? count(infos.length, 'session') : `session ${session}`
        err.stream.write(`${err.paint(`Watching ${scope} in ${store.getBaseDir()}`)}\n`)
        isFirst = false
      }
      for (const info of added)
        out.stream.write(options.json ? jsonDocument(info, 0) : `${checkpointLine(info, out)}\n`)
    },
    close() {},
  }
}

function checkpointLine({ sessionId, id, timestamp, trigger, label, taskCount, sizeBytes, encoding }, terminal) {
  const name = label === undefined ? '' : ` (${label})`
  return terminal.paint(
    `${moment(timestamp)}  ${sessionId}/${id}${name}  ${trigger}, ${count(taskCount, 'task')}, ${bytes(sizeBytes)} ${encoding}`,
  )
}

/** A full-screen view that is redrawn after each poll and when the terminal is resized. */
function liveView(terminal, store, session) {
  const { screenOn } = require('../terminal/screen.js')
  const { stream } = terminal
  const screen = screenOn(stream)
  let lines = () => []
  const draw = () => screen.draw(lines())
  const close = () => {
    stream.off('resize', draw)
    process.off('exit', close)
    screen.close()
  }
  stream.on('resize', draw)
  // Restore the screen however the process ends.
  process.on('exit', close)
  const cache = new Map()
  const render =
    session === undefined ? () => storeLines(store, terminal, cache) : sessionLines(store, session, terminal)
  return {
    async update() {
      // After a failed read, show the error and poll again.
      lines = await render().catch((error) => () => [title(terminal, store), '', terminal.paint(error.message, 'red')])
      draw()
    },
    close,
  }
}

function title(terminal, store) {
  const { line } = require('../terminal/lines.js')
  const now = moment(Date.now()).slice(11)
  return line(terminal, [
    ['waymark', 'bold'],
    [`  ${now}  ${store.getBaseDir()}  q quits`, 'dim'],
  ])
}

async function storeLines(store, terminal, cache) {
  const { section } = require('../terminal/lines.js')
  const { readSessions, sessionTable } = require('../views/session-table.js')
  const read = await readSessions(store, { timeLimitMs: DEFAULT_INTERVAL_MS, cache })
  const { checkpoints } = await store.listAllCheckpoints({ limit: RECENT_CHECKPOINTS })
  // The most recently active sessions first: a small screen does not show all.
  const newestFirst = read.infos.toSorted(
    (a, b) => (b.newestCheckpoint?.timestamp ?? 0) - (a.newestCheckpoint?.timestamp ?? 0),
  )
  return () => {
    const rows = Math.max(3, screenRows(terminal) - checkpoints.length - 6)
    return [
      title(terminal, store),
      '',
      ...(newestFirst.length === 0
        ? ['No sessions yet.']
        : sessionTable({ ...read, infos: newestFirst.slice(0, rows) }, terminal)),
      ...section(
        terminal,
        'Newest checkpoints',
        checkpoints.map((info) => recentLine(terminal, info, true)),
      ),
    ]
  }
}

/** Returns the render function for one session; it reads each newest checkpoint only once. */
function sessionLines(store, session, terminal) {
  const { section } = require('../terminal/lines.js')
  const { agentLines, errorLines, headerLines, treeLines } = require('../views/session-view.js')
  let read
  return async () => {
    const info = await store.sessionInfo(session)
    if (!info) return () => [title(terminal, store), '', `Session ${terminal.paint(session)} was deleted.`]
    const { checkpoints } = await store.listCheckpointInfo(session, { limit: RECENT_CHECKPOINTS })
    const newest = info.newestCheckpoint?.id
    if (newest !== undefined && read?.id !== newest) {
      // If it is damaged, keep the previous one.
      const raw = await store.getCheckpoint(session, newest).catch(() => undefined)
      if (raw) read = { ...raw, id: newest, back: 0, info: checkpoints.find(({ id }) => id === newest) }
    }
    const state = { ...read, sessionId: session }
    return () => {
      const isSmall = screenRows(terminal) < 40
      const recent = section(
        terminal,
        'Newest checkpoints',
        checkpoints.slice(0, isSmall ? 3 : RECENT_CHECKPOINTS).map((each) => recentLine(terminal, each, false)),
      )
      const top = [title(terminal, store), '', ...headerLines(terminal, state, info.lease)]
      const errors = section(terminal, 'Errors', errorLines(terminal, state, { errors: 2 }))
      const agents = section(terminal, 'Agents', agentLines(terminal, state, { siblings: isSmall ? 4 : 12 }))
      const tree = treeLines(terminal, state, { levels: 3, siblings: 8, collapseSettled: true })
      const rows = screenRows(terminal) - 1 - top.length
      return top.concat(...allocateRows(rows, section(terminal, 'Tasks', tree), [recent, errors, agents]))
    }
  }
}

function screenRows({ stream }) {
  return stream.rows || 24
}

/** Cuts sections to `rows` lines in all. The first gets at least half of them; a section with only a title is left out. */
function allocateRows(rows, first, others) {
  const wanted = others.reduce((sum, lines) => sum + lines.length, 0)
  let left = rows
  return [first, ...others].map((lines, index) => {
    const limit = index === 0 ? Math.max(rows - wanted, Math.ceil(rows / 2)) : left
    const shown = limit < 3 ? [] : lines.slice(0, limit)
    left -= shown.length
    return shown
  })
}

function recentLine(terminal, info, withSession) {
  const { line } = require('../terminal/lines.js')
  return line(terminal, [
    [ago(info.timestamp).padEnd(12), 'dim'],
    [withSession ? `${info.sessionId}/` : '', 'green'],
    [info.id, 'yellow'],
    [info.label === undefined ? '' : `  (${info.label})`, 'cyan'],
    [`  ${info.trigger}, ${count(info.taskCount, 'task')}, ${bytes(info.sizeBytes)}`],
  ])
}
