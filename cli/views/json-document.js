// A JSON document as it is written.

'use strict'

/** JSON escapes most control characters by itself; a terminal would obey the rest. */
function documentOf(value, indent = 2) {
  const text = JSON.stringify(value, null, indent)
  return `${text.replaceAll(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

module.exports = { documentOf }
