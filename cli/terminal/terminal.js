// What a stream can show: how wide it is, in colours or not, and with which drawing characters.

'use strict'

const { FAILED } = require('../complaint.js')

const { outputOf } = require('./output.js')
const { clean } = require('./width.js')

let isOutputMissed = false

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 }

const UNICODE = {
  ellipsis: '…',
  full: '█',
  half: '▓',
  empty: '░',
  eighths: ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'],
  vertical: '│',
  branch: '├',
  last: '└',
  horizontal: '─',
  cross: '┼',
  up: '┴',
  corner: '╯',
  commit: '●',
  fork: '◇',
  damaged: '✗',
  arrow: '→',
  completed: '✓',
  failed: '✗',
  running: '●',
  waiting: '○',
  blocked: '■',
  cancelled: '–',
  dot: '·',
}

const ASCII = {
  ellipsis: '...',
  full: '#',
  half: '=',
  empty: '.',
  eighths: [''],
  vertical: '|',
  branch: '|',
  last: '`',
  horizontal: '-',
  cross: '+',
  up: '-',
  corner: "'",
  commit: '*',
  fork: 'o',
  damaged: 'x',
  arrow: '->',
  completed: '+',
  failed: 'x',
  running: '*',
  waiting: 'o',
  blocked: '#',
  cancelled: '-',
  dot: '-',
}

/** `stdout` or `stderr`. What cannot be written does not stop the work. */
function standard(name) {
  const stream = outputOf(name)
  const onError = name === 'stdout' ? missOutput : () => {}
  if (stream.listenerCount('error') === 0) stream.on('error', onError)
  return stream
}

/** A reader that has seen enough, such as `head`, is no error; a disk that is full is one, whatever else came of the work. */
function missOutput({ code, message }) {
  if (code === 'EPIPE' || isOutputMissed) return
  isOutputMissed = true
  const reason = /^\w+: ([^,]*)/.exec(message)?.[1] ?? message
  standard('stderr').write(`waymark: The output could not be written: ${reason}. The command went on to its end.\n`)
  process.once('exit', () => (process.exitCode ||= FAILED))
}

function terminalOf(stream, env = process.env) {
  const isTerminal = Boolean(stream.isTTY)
  const hasColours = isTerminal && !env.NO_COLOR && stream.hasColors()
  return {
    stream,
    isTerminal,
    /** Whether what was written can be written over. */
    canRedraw: isTerminal && env.TERM !== 'dumb',
    /** How wide a line may be; what goes to a file is never shortened. */
    get columns() {
      return isTerminal ? stream.columns || 80 : Infinity
    },
    glyphs: isUnicode(env) ? UNICODE : ASCII,
    /** A text of whatever origin, harmless and in that style. What is painted already must not be painted again. */
    paint(text, style) {
      const harmless = clean(text)
      return hasColours && style && harmless ? `\u001b[${STYLES[style]}m${harmless}\u001b[0m` : harmless
    },
  }
}

/** Only a locale that names another encoding speaks against it: many containers have none at all. */
function isUnicode(env) {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG
  return !locale || /utf-?8/i.test(locale)
}

module.exports = { ASCII, UNICODE, standard, terminalOf }
