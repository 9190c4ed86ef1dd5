// Standard output and standard error. Files and pipes are written to synchronously: creating a Node.js stream for them takes longer
// than most commands.

'use strict'

const EventEmitter = require('node:events')
const { fstatSync, writeSync } = require('node:fs')

const DESCRIPTORS = { stdout: 1, stderr: 2 }

const RETRY_MS = 1

class FileOutput extends EventEmitter {
  isTTY = false
  #descriptor
  #hasFailed = false

  constructor(descriptor) {
    super()
    this.#descriptor = descriptor
  }

  /** Emits `error` for the first failed write, and ignores all later ones. */
  write(text) {
    if (this.#hasFailed) return
    try {
      writeAll(this.#descriptor, Buffer.from(text))
    } catch (error) {
      this.#hasFailed = true
      this.emit('error', error)
    }
  }
}

function writeAll(descriptor, bytes) {
  let start = 0
  while (start < bytes.length) {
    try {
      start += writeSync(descriptor, bytes, start)
    } catch (error) {
      // A non-blocking pipe is full: retry when its reader may have caught up.
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS)
    }
  }
}

/** A terminal is always a character device. */
function isNotTerminal(descriptor) {
  try {
    return !fstatSync(descriptor).isCharacterDevice()
  } catch {
    return false
  }
}

const outputs = {}

/** `stdout` or `stderr`, created on first use. */
function outputStream(name) {
  outputs[name] ??= isNotTerminal(DESCRIPTORS[name]) ? new FileOutput(DESCRIPTORS[name]) : process[name]
  return outputs[name]
}

module.exports = { outputStream }
