// Formats bytes, times and durations for people.

'use strict'

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
const SPANS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]

/** `1.2 MB`; a kilobyte has 1000 bytes. */
function bytes(number) {
  let value = number
  let unit = 0
  while (value >= 999.5 && unit < SIZES.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${unit > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${SIZES[unit]}`
}

/** `3 min`: in the largest unit of which there is at least one. */
function duration(ms) {
  if (!Number.isFinite(ms)) return '?'
  const [unit, size] = SPANS.find(([, span]) => ms >= span) ?? ['ms', 1]
  return `${Math.floor(ms / size)} ${unit}`
}

/** `3 min ago`, or `in 3 min` for a time in the future. */
function ago(timestamp, now = Date.now()) {
  const span = now - timestamp
  if (!Number.isFinite(span)) return '?'
  if (Math.abs(span) < 1000) return 'now'
  return span > 0 ? `${duration(span)} ago` : `in ${duration(-span)}`
}

/** The same without `ago`, for a column whose title says it. */
function age(timestamp, now) {
  return ago(timestamp, now).replace(/ ago$/, '')
}

/** `2026-03-01 04:05:06`, in the local time zone. */
function moment(timestamp) {
  const date = new Date(timestamp)
  if (Number.isNaN(date.getTime())) return '?'
  const two = (number) => String(number).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

/** `1 checkpoint`, `2 checkpoints`. */
function count(number, noun) {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

module.exports = { age, ago, bytes, count, duration, moment }
