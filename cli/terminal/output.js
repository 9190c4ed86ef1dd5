// Standard output and standard error. Where they are files or pipes they are written to as files: to make a stream of one takes
// longer than most of what a command does.

'use strict'

const EventEmitter = require('node:events')
const { fstatSync, writeSync } = require('node:fs')

const DESCRIPTORS = { stdout: 1, stderr: 2 }

const PAUSE_MS = 1

class PlainOutput extends EventEmitter {
  isTTY = false
  #descriptor
  #hasFailed = false

  constructor(descriptor) {
    super()
    this.#descriptor = descriptor
  }

  /** What cannot be written is told as an `error`, once; whatever comes after it is dropped. */
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
      // A pipe that does not wait is full: its reader needs a moment.
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS)
    }
  }
}

/** Every terminal is a character device, and little else is. */
function isSurelyPlain(descriptor) {
  try {
    return !fstatSync(descriptor).isCharacterDevice()
  } catch {
    return false
  }
}

const outputs = {}

/** `stdout` or `stderr`, made when it is asked for first. */
function outputOf(name) {
  outputs[name] ??= isSurelyPlain(DESCRIPTORS[name]) ? new PlainOutput(DESCRIPTORS[name]) : process[name]
  return outputs[name]
}

module.exports = { outputOf }
