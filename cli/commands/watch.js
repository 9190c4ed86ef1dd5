// What happens in a store while somebody looks.

'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const { documentOf } = require('../document.js')
const { standard } = require('../terminal/terminal.js')
const { ago, bytes, count } = require('../terminal/units.js')

const DEFAULT_INTERVAL_MS = 1000
const SHORTEST_INTERVAL_MS = 100
/** What timers take at most. */
const LONGEST_INTERVAL_MS = 2 ** 31 - 1
const RECENT = 8
/** `q`, Ctrl-C and Ctrl-D: where keys come one by one, the terminal makes no signal of them. */
const ENDING_KEYS = ['q', 'Q', '\u0003', '\u0004']

module.exports = {
  name: 'watch',
  positionals: [
    { name: 'session', optional: true, meaning: 'This one alone. A single word that begins like a location is one.' },
  ],
  options: [{ name: 'interval', short: 'i', value: 'duration', meaning: 'Look so often: 500ms, 5s; 1s without it.' }],
  json: { name: 'json', meaning: 'One JSON document a line, for each new checkpoint.' },
  notes: ['Where there is no terminal, it writes a line for each new checkpoint.'],
  examples: ['waymark watch', 'waymark watch nightly --interval 5s', 'waymark watch nightly --json'],
  run,
}

async function run(call) {
  const { durationMs } = require('../quantities.js')
  const { interval } = call.options
  const wanted = interval === undefined ? DEFAULT_INTERVAL_MS : durationMs('--interval', interval)
  const store = await call.store()
  const { sessionId } = require('../references.js')
  const session = call.words.session === undefined ? undefined : await sessionId(store, call.words.session)
  const isLive = call.out.canRedraw && !call.options.json
  const view = isLive ? liveView(call.out, store, session) : lineView(call, store, session)
  const end = endOfWatching(isLive)
  try {
    while (!end.signal.aborted) {
      await view.look()
      await pause(Math.min(Math.max(SHORTEST_INTERVAL_MS, wanted), LONGEST_INTERVAL_MS), undefined, {
        signal: end.signal,
      }).catch(() => {})
    }
  } finally {
    view.close()
    end.close()
  }
  return {}
}

/** Somebody who has seen enough: a signal, or where keys can be read one by one, a key. */
function endOfWatching(hasKeys) {
  const { stdin } = process
  const stdout = standard('stdout')
  const controller = new AbortController()
  const stop = () => controller.abort()
  const onKey = (keys) => {
    if (ENDING_KEYS.some((key) => keys.includes(key))) stop()
  }
  const readsKeys = hasKeys && stdin.isTTY
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, stop)
  // Nobody reads it any more.
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

/** Finds the checkpoints that were not there when it looked last. */
class News {
  #store
  #session
  #seen

  constructor(store, session) {
    this.#store = store
    this.#session = session
  }

  /** New checkpoints, oldest first, each with its session; none when it is asked first. */
  async look() {
    const { infosOf } = require('../references.js')
    const infos = await infosOf(this.#store, this.#session)
    const before = this.#seen
    // A place that is away for a moment, and what was in it, may come back: that is no news.
    this.#seen = new Map(before)
    for (const { id, newestCheckpoint } of infos) if (newestCheckpoint) this.#seen.set(id, newestCheckpoint)
    const found = []
    for (const { id, newestCheckpoint } of before ? infos : []) {
      const last = before.get(id)
      if (!newestCheckpoint || newestCheckpoint.id === last?.id) continue
      const { checkpoints } = await this.#store.listCheckpointInfo(id, last ? { since: last.timestamp } : {})
      // Ids are in the order of time, which two of one millisecond share.
      const young = checkpoints.filter((info) => !last || info.id > last.id)
      for (const info of young) found.push({ sessionId: id, ...info })
    }
    return { infos, found: found.toSorted((a, b) => a.timestamp - b.timestamp) }
  }
}

/** A line for each new checkpoint, for files and pipes. */
function lineView({ options, out, err }, store, session) {
  const news = new News(store, session)
  let isFirst = true
  return {
    async look() {
      const { infos, found } = await news.look()
      if (isFirst) {
        const what = session === undefined ? count(infos.length, 'session') : `session ${session}`
        err.stream.write(`${err.paint(`Watching ${what} in ${store.getBaseDir()}`)}\n`)
        isFirst = false
      }
      for (const info of found) out.stream.write(options.json ? documentOf(info, 0) : `${sentence(info, out)}\n`)
    },
    close() {},
  }
}

function sentence({ sessionId, id, timestamp, trigger, label, taskCount, sizeBytes, encoding }, terminal) {
  const { moment } = require('../terminal/units.js')
  const name = label === undefined ? '' : ` (${label})`
  return terminal.paint(
    `${moment(timestamp)}  ${sessionId}/${id}${name}  ${trigger}, ${count(taskCount, 'task')}, ${bytes(sizeBytes)} ${encoding}`,
  )
}

/** The whole screen, redrawn when something has changed, and once in a while because time passes. */
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
  // However it ends, the screen is given back.
  process.on('exit', close)
  const known = new Map()
  const gather =
    session === undefined ? () => storeLines(store, terminal, known) : sessionLines(store, session, terminal)
  return {
    async look() {
      // A store that cannot be read for a moment is looked at again.
      lines = await gather().catch((error) => () => [title(terminal, store), '', terminal.paint(error.message, 'red')])
      draw()
    },
    close,
  }
}

function title(terminal, store) {
  const { line } = require('../terminal/lines.js')
  const now = require('../terminal/units.js').moment(Date.now()).slice(11)
  return line(terminal, [
    ['waymark', 'bold'],
    [`  ${now}  ${store.getBaseDir()}  q ends`, 'dim'],
  ])
}

async function storeLines(store, terminal, known) {
  const { section } = require('../terminal/lines.js')
  const { sessionTable, sessionsOf } = require('../sessions.js')
  const { infos } = await sessionsOf(store, { patienceMs: DEFAULT_INTERVAL_MS, known })
  const { checkpoints } = await store.listAllCheckpoints({ limit: RECENT })
  // Those in which something happened last come first, for a screen that is too small for all.
  const newestFirst = infos.toSorted(
    (a, b) => (b.newestCheckpoint?.timestamp ?? 0) - (a.newestCheckpoint?.timestamp ?? 0),
  )
  return () => {
    const room = Math.max(3, (terminal.stream.rows || 24) - checkpoints.length - 6)
    return [
      title(terminal, store),
      '',
      ...(infos.length === 0 ? ['No sessions yet.'] : sessionTable(newestFirst.slice(0, room), terminal)),
      ...section(
        terminal,
        'Last checkpoints',
        checkpoints.map((info) => recentLine(terminal, info, true)),
      ),
    ]
  }
}

/** A function that gathers what is shown of one session; its newest checkpoint is read once. */
function sessionLines(store, session, terminal) {
  const { section } = require('../terminal/lines.js')
  const { agentLines, errorLines, header, treeLines } = require('../portrait.js')
  let read
  return async () => {
    const info = await store.sessionInfo(session)
    if (!info) return () => [title(terminal, store), '', `Session ${terminal.paint(session)} is gone.`]
    const { checkpoints } = await store.listCheckpointInfo(session, { limit: RECENT })
    const newest = info.newestCheckpoint?.id
    if (newest !== undefined && read?.id !== newest) {
      // One that is damaged leaves what was read before.
      const raw = await store.getCheckpoint(session, newest).catch(() => undefined)
      if (raw) read = { ...raw, id: newest, back: 0, info: checkpoints.find(({ id }) => id === newest) }
    }
    const state = { ...read, sessionId: session }
    return () => {
      const isSmall = (terminal.stream.rows || 24) < 40
      const recent = section(
        terminal,
        'Last checkpoints',
        checkpoints.slice(0, isSmall ? 3 : RECENT).map((each) => recentLine(terminal, each, false)),
      )
      const top = [title(terminal, store), '', ...header(terminal, state, info.lease)]
      const errors = section(terminal, 'Errors', errorLines(terminal, state, { errors: 2 }))
      const agents = section(terminal, 'Agents', agentLines(terminal, state, { siblings: isSmall ? 4 : 12 }))
      const tree = treeLines(terminal, state, { levels: 3, siblings: 8, foldsQuiet: true })
      const room = (terminal.stream.rows || 24) - 1 - top.length
      return top.concat(...shared(room, section(terminal, 'Tasks', tree), [recent, errors, agents]))
    }
  }
}

/** Sections that have so many lines together: the first has a claim to half of them, and none is a title over nothing. */
function shared(room, first, others) {
  const wanted = others.reduce((sum, lines) => sum + lines.length, 0)
  let left = room
  return [first, ...others].map((lines, index) => {
    const most = index === 0 ? Math.max(room - wanted, Math.ceil(room / 2)) : left
    const shown = most < 3 ? [] : lines.slice(0, most)
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
