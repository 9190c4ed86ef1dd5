// What a stream can show: how wide it is, in colours or not, and with which drawing characters.

'use strict'

const { clean } = require('./width.js')

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

/**
 * `stdout` or `stderr`, made when somebody needs it, which takes its time. A reader that has seen enough, such as `head`, is no
 * error.
 */
function standard(name) {
  const stream = process[name]
  if (!stream.listeners('error').includes(endQuietly)) stream.on('error', endQuietly)
  return stream
}

function endQuietly(error) {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
}

function terminalOf(stream, env = process.env) {
  const isTerminal = Boolean(stream.isTTY)
  const hasColours = isTerminal && !env.NO_COLOR && stream.hasColors()
  return {
    stream,
    isTerminal,
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
