// Numbers, durations and sizes on the command line: `10`, `7d`, `500MB`.

'use strict'

const { usageError } = require('../cli-error.js')

const DURATION_UNITS = {
  ms: 1,
  s: 1000,
  sec: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const SIZE_UNITS = {
  '': 1,
  b: 1,
  k: 1e3,
  kb: 1e3,
  kib: 1024,
  m: 1e6,
  mb: 1e6,
  mib: 1024 ** 2,
  g: 1e9,
  gb: 1e9,
  gib: 1024 ** 3,
  t: 1e12,
  tb: 1e12,
  tib: 1024 ** 4,
}

const NUMBER_AND_UNIT = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i

/** A whole number of at least `minimum`. */
function wholeNumber(option, text, minimum = 0) {
  const number = /^\d+$/.test(text) ? Number(text) : NaN
  if (Number.isSafeInteger(number) && number >= minimum) return number
  throw invalidValue(`${option} is a whole number such as 10${minimum > 0 ? `, at least ${minimum}` : ''}`, text)
}

/** The value of `--limit`; `undefined` if it is not given. */
function limitOption({ limit }) {
  return limit === undefined ? undefined : wholeNumber('--limit', limit, 1)
}

/** Milliseconds, at least one. The unit is required. */
function durationMs(option, text) {
  const ms = inUnits(text, DURATION_UNITS)
  if (ms) return ms
  throw invalidValue(`${option} is a duration such as 90s, 12h or 7d`, text)
}

/** Bytes; a number without a unit is in bytes. */
function sizeBytes(option, text) {
  const size = inUnits(text, SIZE_UNITS)
  if (size !== undefined) return size
  throw invalidValue(`${option} is a size such as 500MB, 2GiB or 100000`, text)
}

function inUnits(text, units) {
  const [, number, unit] = NUMBER_AND_UNIT.exec(text.trim()) ?? []
  const name = unit?.toLowerCase()
  if (name === undefined || !Object.hasOwn(units, name)) return undefined
  const value = Math.round(Number(number) * units[name])
  return Number.isSafeInteger(value) ? value : undefined
}

function invalidValue(expected, text) {
  return usageError(`${expected}; got ${JSON.stringify(text)}.`)
}

module.exports = { durationMs, limitOption, sizeBytes, wholeNumber }
