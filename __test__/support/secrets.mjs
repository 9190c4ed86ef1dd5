// Passwords that must not appear in errors.

import assert from 'node:assert/strict'
import { inspect } from 'node:util'

/** A password that needs no escapes in a URL, and one that does. */
export const PASSWORDS = ['hunter-in-the-dark', 'p@ss/w?rd:#%é"']

/** The spellings of a password in texts. */
const spellings = (password) => [password, encodeURIComponent(password), encodeURI(password)]

/** The URL of another role. */
export function urlFor(url, role, password) {
  const changed = new URL(url)
  changed.username = role
  changed.password = encodeURIComponent(password)
  return changed.href
}

/** Asserts that no representation of a value, such as an error, contains a password. */
export function assertHidesPassword(value, password) {
  const looks = [inspect(value, { depth: Infinity, showHidden: true }), JSON.stringify(value) ?? '']
  for (let error = value; error instanceof Error; error = error.cause) {
    looks.push(String(error), error.message, error.stack, JSON.stringify({ ...error }))
  }
  for (const look of looks) {
    for (const spelling of spellings(password)) assert.ok(!look.includes(spelling), look)
  }
}
