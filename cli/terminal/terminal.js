// What a stream can show: its width, colours and drawing characters.

'use strict'

const { getSystemErrorMap } = require('node:util')

const { FAILED } = require('../cli-error.js')

const { outputStream } = require('./output.js')
const { sanitize } = require('./text-width.js')

let hasReportedOutput = false

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

/** `stdout` or `stderr`. A failed write does not stop the command. */
function standardStream(name) {
  const stream = outputStream(name)
  const onError = name === 'stdout' ? reportLostOutput : () => {}
  if (stream.listenerCount('error') === 0) stream.on('error', onError)
  return stream
}

/** A reader that closes its end, such as `head`, is no error. A full disk is, even if the command itself succeeds. */
function reportLostOutput({ code, errno, message }) {
  if (code === 'EPIPE' || hasReportedOutput) return
  hasReportedOutput = true
  const [, reason] = getSystemErrorMap().get(errno) ?? [code, message]
  standardStream('stderr').write(
    `waymark: The output could not be written: ${reason}. The command itself was completed.\n`,
  )
  process.once('exit', () => (process.exitCode ||= FAILED))
}

function terminalOf(stream, env = process.env) {
  const isTerminal = Boolean(stream.isTTY)
  const hasColours = isTerminal && !env.NO_COLOR && stream.hasColors()
  return {
    stream,
    isTerminal,
    /** Whether the stream can overwrite earlier output. */
    canRedraw: isTerminal && env.TERM !== 'dumb',
    /** The maximum width of a line; output to a file is never truncated. */
    get columns() {
      return isTerminal ? stream.columns || 80 : Infinity
    },
    glyphs: isUnicode(env) ? UNICODE : ASCII,
    /** Sanitizes a text and applies a style. Apply it once: it would escape its own escape sequences. */
    paint(text, style) {
      const sanitized = sanitize(text)
      return hasColours && style && sanitized ? `\u001b[${STYLES[style]}m${sanitized}\u001b[0m` : sanitized
    },
  }
}

/** Without a locale, as in many containers, Unicode is assumed. */
function isUnicode(env) {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG
  return !locale || /utf-?8/i.test(locale)
}

module.exports = { ASCII, UNICODE, standardStream, terminalOf }
