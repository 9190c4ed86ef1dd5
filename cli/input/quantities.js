// Numbers, durations and sizes as people type them: `10`, `7d`, `500MB`.

'use strict'

const { wrongUse } = require('./complaint.js')

const SPANS = {
  ms: 1,
  s: 1000,
  sec: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const SIZES = {
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

/** A whole number, 0 or more unless `least` says otherwise. */
function wholeNumber(option, text, least = 0) {
  const number = /^\d+$/.test(text) ? Number(text) : NaN
  if (!Number.isSafeInteger(number) || number < least)
    throw wrongUse(
      `${option} is a whole number such as 10${least > 0 ? `, at least ${least}` : ''}; got ${JSON.stringify(text)}.`,
    )
  return number
}

/** Milliseconds, at least one; the unit must be there, since nobody knows what a bare number means. */
function durationMs(option, text) {
  return inUnits(text, SPANS) || refuse(`${option} is a duration such as 90s, 12h or 7d`, text)
}

/** Bytes; without a unit, the number is one of bytes. */
function sizeBytes(option, text) {
  return inUnits(text, SIZES) ?? refuse(`${option} is a size such as 500MB, 2GiB or 100000`, text)
}

function inUnits(text, units) {
  const [, number, unit] = NUMBER_AND_UNIT.exec(text.trim()) ?? []
  const name = unit?.toLowerCase()
  if (name === undefined || !Object.hasOwn(units, name)) return undefined
  const value = Math.round(Number(number) * units[name])
  return Number.isSafeInteger(value) ? value : undefined
}

function refuse(expected, text) {
  throw wrongUse(`${expected}; got ${JSON.stringify(text)}.`)
}

module.exports = { durationMs, sizeBytes, wholeNumber }
