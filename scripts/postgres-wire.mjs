// A minimal PostgreSQL client for scripts and tests: statements without parameters, each call on a new connection.

import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { connect } from 'node:net'

const PROTOCOL = 3 << 16
const HEADER_BYTES = 5

/** What `AuthenticationXXX` messages ask for. */
const ASKS_NOTHING = 0
const ASKS_PASSWORD = 3
const ASKS_SASL = 10
const SASL_CONTINUES = 11
const SASL_ENDS = 12

/**
 * Runs statements separated by semicolons, in one transaction unless they say otherwise. Resolves to the rows of all
 * of them, as arrays of texts and nulls, and to the parameters that the server reports, such as `server_version`.
 */
export async function query(url, sql, { timeoutMs = 10_000 } = {}) {
  const { hostname, port, username, password, pathname } = new URL(url)
  const user = decodeURIComponent(username)
  const database = decodeURIComponent(pathname.slice(1)) || user
  const socket = connect({ host: hostname, port: Number(port || 5432) })
  const timer = setTimeout(() => socket.destroy(new Error(`No answer in ${timeoutMs} ms`)), timeoutMs)
  const answer = { rows: [], parameters: {} }
  const authenticate = authenticator(socket, decodeURIComponent(password))
  let isAsked = false
  let isAnswered = false
  let refusal
  try {
    socket.write(startup({ user, database, client_encoding: 'UTF8' }))
    for await (const [type, body] of messages(socket)) {
      if (type === 'R') authenticate(body)
      if (type === 'S') Object.assign(answer.parameters, Object.fromEntries([texts(body).slice(0, 2)]))
      if (type === 'D') answer.rows.push(columns(body))
      if (type === 'E') refusal ??= refused(body)
      if (type === 'Z' && !isAsked) {
        isAsked = true
        socket.write(message('Q', `${sql}\0`))
      } else if (type === 'Z') {
        isAnswered = true
        socket.end(message('X', ''))
        break
      }
    }
    if (refusal) throw refusal
    if (!isAnswered) throw new Error('The server closed the connection')
    return answer
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}

/** A quoted SQL identifier. */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`

function message(type, content) {
  const body = Buffer.from(content)
  const head = Buffer.alloc(HEADER_BYTES)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

function startup(parameters) {
  const pairs = Object.entries(parameters).flat()
  const body = Buffer.from(`${pairs.join('\0')}\0\0`)
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + body.length)
  head.writeInt32BE(PROTOCOL, 4)
  return Buffer.concat([head, body])
}

/** The messages of the server, as `[type, body]`. */
async function* messages(socket) {
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= HEADER_BYTES) {
      const end = 1 + bytes.readInt32BE(1)
      if (bytes.length < end) break
      yield [String.fromCharCode(bytes[0]), bytes.subarray(HEADER_BYTES, end)]
      bytes = bytes.subarray(end)
    }
  }
}

const texts = (body) => body.toString().split('\0')

function columns(body) {
  const values = []
  let at = 2
  for (let left = body.readInt16BE(); left > 0; left -= 1) {
    const length = body.readInt32BE(at)
    at += 4
    values.push(length < 0 ? null : body.toString('utf8', at, at + length))
    at += Math.max(length, 0)
  }
  return values
}

function refused(body) {
  const fields = Object.fromEntries(texts(body).map((field) => [field[0], field.slice(1)]))
  return Object.assign(new Error(fields.M), { code: fields.C })
}

/** The client side of authentication; SCRAM-SHA-256 as in RFC 7677. */
function authenticator(socket, password) {
  const bare = `n=,r=${randomBytes(18).toString('base64')}`
  return (body) => {
    const asked = body.readInt32BE()
    if (asked === ASKS_NOTHING || asked === SASL_ENDS) return
    if (asked === ASKS_PASSWORD) socket.write(message('p', `${password}\0`))
    else if (asked === ASKS_SASL) {
      const first = Buffer.from(`n,,${bare}`)
      const length = Buffer.alloc(4)
      length.writeInt32BE(first.length)
      socket.write(message('p', Buffer.concat([Buffer.from('SCRAM-SHA-256\0'), length, first])))
    } else if (asked === SASL_CONTINUES) socket.write(message('p', proven(bare, body.toString('utf8', 4), password)))
    else throw new Error(`The server wants a login of kind ${asked}, which is not known here`)
  }
}

function proven(bare, challenge, password) {
  const {
    r: nonce,
    s: salt,
    i: rounds,
  } = Object.fromEntries(challenge.split(',').map((part) => [part[0], part.slice(2)]))
  const hmac = (key, text) => createHmac('sha256', key).update(text).digest()
  const clientKey = hmac(pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(rounds), 32, 'sha256'), 'Client Key')
  const unproven = `c=biws,r=${nonce}`
  const signature = hmac(createHash('sha256').update(clientKey).digest(), `${bare},${challenge},${unproven}`)
  const proof = clientKey.map((byte, at) => byte ^ signature[at])
  return `${unproven},p=${Buffer.from(proof).toString('base64')}`
}
