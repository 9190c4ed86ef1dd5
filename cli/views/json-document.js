// JSON output.

'use strict'

/** A JSON document. `JSON.stringify()` does not escape every character that a terminal executes. */
function jsonDocument(value, indent = 2) {
  const text = JSON.stringify(value, null, indent)
  return `${text.replaceAll(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, unicodeEscape)}\n`
}

function unicodeEscape(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

module.exports = { jsonDocument }
