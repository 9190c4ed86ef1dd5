// Prints JSON texts, each with what JavaScript makes of it: text NUL canonical NUL. Arguments: seed, numbers, values.

import { once } from 'node:events'

const [seed, numbers, values] = process.argv.slice(2).map(Number)

// mulberry32
let state = seed >>> 0
function random() {
  state = (state + 0x6d2b79f5) >>> 0
  let t = state
  t = Math.imul(t ^ (t >>> 15), t | 1)
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}
const below = (limit) => Math.floor(random() * limit)
const pick = (list) => list[below(list.length)]
const times = (count, make) => Array.from({ length: count }, make)
const digits = (count) => times(count, () => below(10)).join('')

const bits = new DataView(new ArrayBuffer(8))

/** A double with random bits: every exponent is equally likely. */
function anyDouble() {
  bits.setUint32(0, below(2 ** 32))
  bits.setUint32(4, below(2 ** 32))
  const number = bits.getFloat64(0)
  return Number.isFinite(number) ? number : 0
}

function subnormal() {
  bits.setUint32(0, below(2) * 2 ** 31 + below(2 ** 20))
  bits.setUint32(4, below(2 ** 32))
  return bits.getFloat64(0)
}

/** The same number a few units in the last place away. */
function nudged(number) {
  bits.setFloat64(0, number)
  bits.setUint32(4, (bits.getUint32(4) + below(5) - 2) >>> 0)
  const near = bits.getFloat64(0)
  return Number.isFinite(near) ? near : number
}

/** The decimal expansion of a point halfway between two doubles, or next to it, which has hundreds of digits. */
function halfway() {
  const exponent = below(1070)
  const odd = (BigInt(2 ** 52 + below(2 ** 32) * 2 ** 19) << 1n) + 1n
  const scaled = odd * 5n ** BigInt(exponent) + pick([0n, 0n, 1n, -1n])
  return `${scaled}${pick(['', '.0', '.1'])}e-${exponent}`
}

function literal() {
  switch (below(12)) {
    case 0:
      return String(anyDouble())
    case 1:
      return String(subnormal())
    case 2:
      return String(nudged(2 ** below(1024)))
    case 3:
      return String(nudged(10 ** (below(616) - 308)))
    case 4:
      return `${pick(['', '-'])}${BigInt(2) ** 53n + BigInt(below(64) - 32)}`
    case 5:
      return anyDouble()
        .toExponential(below(101))
        .replace('e', pick(['e', 'E']))
    case 6:
      return `${pick(['', '-'])}${1 + below(9)}${digits(below(30))}${pick(['', '.0', `.${digits(1 + below(30))}`])}`
    case 7:
      return `${pick(['', '-'])}0.${digits(1 + below(40))}${pick(['', `e${below(40) - 20}`, `E+${below(400)}`])}`
    case 8:
      return `${pick(['', '-'])}${pick(['0', '0.0', '0e5', '0E-3', '1.0', '1e0', '10e-1', '1e400', '1e-400', '1e308', '1e309'])}`
    case 9:
      return `${1 + below(9)}${digits(below(25))}e${pick(['', '+', '-'])}${pick(['', '0', '00'])}${below(330)}`
    case 10:
      return halfway()
    default:
      return String(below(2 ** 32) * pick([1, -1, 0.1, 1e-3, 1024]))
  }
}

const characters = [
  'a',
  'Z',
  '0',
  ' ',
  '/',
  'é',
  '検',
  '\u{1f7e6}',
  '\u2028',
  '\u2029',
  '\x7f',
  '\ufeff',
  '\uffff',
  '\u0300',
]
const escapes = ['\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\\\u0041']

function unitEscape() {
  const unit = pick([
    () => below(0x20),
    () => below(0x80),
    () => below(0x10000),
    () => 0xd800 + below(0x400),
    () => 0xdc00 + below(0x400),
  ])()
  const hex = unit.toString(16).padStart(4, '0')
  return `\\u${pick([hex, hex.toUpperCase()])}`
}

const string = (length) =>
  `"${times(length, () => pick([pick(characters), pick(characters), pick(escapes), unitEscape(), unitEscape()])).join('')}"`

function key() {
  switch (below(8)) {
    case 0:
      return `"${below(20)}"`
    case 1:
      return `"${pick([2 ** 31, 2 ** 32, 2 ** 53]) + below(8) - 4}"`
    case 2:
      return pick(['"__proto__"', '"toJSON"', '"constructor"', '""', '"length"', '"\\u005f_proto__"'])
    case 3:
      return pick(['"01"', '"-1"', '"1.0"', '"1e3"', '"+1"', '" 1"', '"\\u0031"', '"18446744073709551615"', '"-0"'])
    case 4:
      return string(below(4))
    default:
      return `"${pick(['a', 'b', 'c', 'd', '\\u0061', '\\u0062'])}${pick(['', '', below(30)])}"`
  }
}

const space = () => (random() < 0.7 ? '' : times(1 + below(3), () => pick([' ', '\n', '\t', '\r'])).join(''))

function value(depth) {
  const kind = below(depth > 0 ? 10 : 6)
  if (kind < 2) return literal()
  if (kind < 4) return string(below(12))
  if (kind < 6) return pick(['true', 'false', 'null', '[]', '{}', '[ ]', '{\n}'])
  // A few have so many members that engines keep them in another way.
  const count = random() < 0.01 ? below(100) : below(5)
  const part = kind < 8 ? () => value(depth - 1) : () => `${key()}${space()}:${space()}${value(depth - 1)}`
  const parts = times(count, () => `${space()}${part()}${space()}`).join(',')
  return kind < 8 ? `[${parts}]` : `{${parts}}`
}

async function print(count, make) {
  for (let printed = 0; printed < count;) {
    let lines = ''
    for (; lines.length < 1 << 16 && printed < count; printed += 1) {
      const text = make()
      lines += `${text}\0${JSON.stringify(JSON.parse(text))}\0`
    }
    if (!process.stdout.write(lines)) await once(process.stdout, 'drain')
  }
}

await print(numbers, literal)
await print(values, () => `${space()}${value(4)}${space()}`)
