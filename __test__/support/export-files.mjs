// Export files that the store did not write: a tar writer that can lie, in a zstd stream that compresses nothing.

import { createHash } from 'node:crypto'

const ZSTD_BLOCK = 128 * 1024
const RAW = 0
const RUN = 1

/** A frame without a checksum and with a window of 128 KiB. */
const FRAME_HEADER = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38])

function block(type, size, bytes, isLast) {
  const header = Buffer.alloc(3)
  header.writeUIntLE((size << 3) | (type << 1) | Number(isLast), 0, 3)
  return Buffer.concat([header, bytes])
}

/** A zstd stream of these bytes, not compressed. */
export function zstdOf(bytes) {
  const blocks = [FRAME_HEADER]
  let at = 0
  do {
    const part = bytes.subarray(at, at + ZSTD_BLOCK)
    at += ZSTD_BLOCK
    blocks.push(block(RAW, part.length, part, at >= bytes.length))
  } while (at < bytes.length)
  return Buffer.concat(blocks)
}

/** A zstd stream of these bytes and then so many megabytes of `fill`, of four bytes each eighth of them. */
export function bombOf(bytes, megabytes, fill = '0') {
  const count = megabytes * 8
  const filling = Array.from({ length: count }, (_, at) => block(RUN, ZSTD_BLOCK, Buffer.from(fill), at === count - 1))
  return Buffer.concat([FRAME_HEADER, block(RAW, bytes.length, bytes, false), ...filling])
}

const TAR_BLOCK = 512

export const TAR_END = Buffer.alloc(2 * TAR_BLOCK)

const octal = (value, length) => value.toString(8).padStart(length - 1, '0')

/**
 * A tar header. `size` may be a number or the raw text of the field; `fields` are `[offset, text]` that replace what is there
 * before the checksum is computed, and `checksum` replaces that.
 */
export function tarHeader(name, size, { type = '0', fields = [], checksum } = {}) {
  const header = Buffer.alloc(TAR_BLOCK)
  header.write(name, 0, 100)
  header.write(octal(0o644, 8), 100)
  header.write(octal(0, 8), 108)
  header.write(octal(0, 8), 116)
  if (Buffer.isBuffer(size)) size.copy(header, 124)
  else header.write(typeof size === 'number' ? octal(size, 12) : size, 124, 12)
  header.write(octal(0, 12), 136)
  header.write('        ', 148)
  header.write(type, 156)
  header.write('ustar  \0', 257, 'latin1')
  for (const [offset, text] of fields) header.write(text, offset, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(checksum ?? `${octal(sum, 7)}\0 `, 148, 8, 'latin1')
  return header
}

export const padded = (bytes) =>
  Buffer.concat([bytes, Buffer.alloc((TAR_BLOCK - (bytes.length % TAR_BLOCK)) % TAR_BLOCK)])

/** A member of a tar, with a GNU long name if it needs one. */
export function tarMember(name, content, { size, ...header } = {}) {
  const bytes = Buffer.from(content)
  const parts = []
  if (Buffer.byteLength(name) > 100) {
    const long = Buffer.from(`${name}\0`)
    parts.push(tarHeader('././@LongLink', long.length, { type: 'L' }), padded(long))
  }
  parts.push(tarHeader(name, size ?? bytes.length, header), padded(bytes))
  return Buffer.concat(parts)
}

export const HEAD = { waymark: 'session', version: 1, sessionId: 's', madeBy: '0.1.0', items: 1 }

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** The manifest of items as for `tarOf`. */
export function manifestOf(items, head = HEAD) {
  const headText = JSON.stringify(head)
  const members = [['waymark.json', headText], ...items].map(([name, content, { pinned, madeAt, listed } = {}]) => {
    const bytes = Buffer.from(content)
    return { name, size: bytes.length, sha256: sha256(bytes), pinned, madeAt, ...listed }
  })
  const bytes = members.slice(1).reduce((total, { size }) => total + size, 0)
  return { items: items.length, bytes, members }
}

/**
 * The tar of an export file without its end: `items` are `[name, content, options]`, with `pinned` and `madeAt` for the manifest,
 * `listed` for what it says otherwise than is true, and the rest for the header. `manifest` replaces members of the manifest, or
 * all of it if it is text.
 */
export function tarMembers(items, { head = HEAD, manifest = {} } = {}) {
  const text = typeof manifest === 'string' ? manifest : JSON.stringify({ ...manifestOf(items, head), ...manifest })
  return Buffer.concat([
    tarMember('waymark.json', JSON.stringify(head)),
    ...items.map(([name, content, { pinned: _, madeAt: __, listed: ___, ...header } = {}]) =>
      tarMember(name, content, header),
    ),
    tarMember('manifest.json', text),
  ])
}

/** The whole tar. */
export const tarOf = (items, changes = undefined) => Buffer.concat([tarMembers(items, changes), TAR_END])

/** A whole export file. */
export const archiveOf = (items, changes = undefined) => zstdOf(tarOf(items, changes))

/** The members of a tar whose only extension is the GNU long name. */
export function membersOf(tar) {
  const members = []
  let at = 0
  let longName
  const text = (bytes) => bytes.subarray(0, (bytes.indexOf(0) + 1 || bytes.length + 1) - 1).toString()
  while (tar[at] !== 0) {
    const header = tar.subarray(at, at + TAR_BLOCK)
    const number = (from, to) => parseInt(text(header.subarray(from, to)), 8)
    const size = number(124, 136)
    const content = tar.subarray(at + TAR_BLOCK, at + TAR_BLOCK + size)
    at += TAR_BLOCK + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK
    const type = String.fromCharCode(header[156])
    if (type === 'L') {
      longName = text(content)
      continue
    }
    if (type !== '0') throw new Error(`a member of type ${type}`)
    members.push({
      name: longName ?? text(header.subarray(0, 100)),
      mode: number(100, 108),
      uid: number(108, 116),
      gid: number(116, 124),
      mtime: number(136, 148),
      content,
    })
    longName = undefined
  }
  return members
}
