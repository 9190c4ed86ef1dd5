// Export files made without the store: uncompressed zstd frames and manifest lines with any
// content.

import { createHash } from 'node:crypto'

const BLOCK = 128 * 1024
const RAW = 0
const RUN = 1

/** A frame without a checksum and with a window of 128 KiB. */
const HEADER = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38])

function block(type, size, bytes, isLast) {
  const header = Buffer.alloc(3)
  header.writeUIntLE((size << 3) | (type << 1) | Number(isLast), 0, 3)
  return Buffer.concat([header, bytes])
}

/** An uncompressed zstd stream of these bytes. */
export function zstdOf(bytes) {
  const blocks = [HEADER]
  let at = 0
  do {
    const part = bytes.subarray(at, at + BLOCK)
    at += BLOCK
    blocks.push(block(RAW, part.length, part, at >= bytes.length))
  } while (at < bytes.length)
  return Buffer.concat(blocks)
}

/** A zstd stream of a text and this many megabytes of zeros: four bytes for each 128 KiB. */
export function bombOf(text, megabytes) {
  const zeros = Array.from({ length: megabytes * 8 }, (_, at) =>
    block(RUN, BLOCK, Buffer.from('0'), at === megabytes * 8 - 1),
  )
  const bytes = Buffer.from(text)
  return Buffer.concat([HEADER, block(RAW, bytes.length, bytes, false), ...zeros])
}

export const HEAD = { waymark: 'session', version: 1, sessionId: 's', madeBy: '0.1.0', items: 1 }

/** The text of an export file: `items` are `[line, bytes]`; missing members of a line are added. */
export function archiveText(items, { head = HEAD, end = {} } = {}) {
  const line = (value) => Buffer.from(`${JSON.stringify(value)}\n`)
  const parts = [line(head)]
  let total = 0
  for (const [entry, text] of items) {
    const bytes = Buffer.from(text)
    total += bytes.length
    parts.push(line({ name: entry.name, size: bytes.length, ...entry }), bytes, Buffer.from('\n'))
  }
  const before = Buffer.concat(parts)
  const sha256 = createHash('sha256').update(before).digest('hex')
  return Buffer.concat([before, line({ items: items.length, bytes: total, sha256, ...end })])
}

/** A whole export file of items as for `archiveText`. */
export const archiveOf = (items, changes = undefined) => zstdOf(archiveText(items, changes))
