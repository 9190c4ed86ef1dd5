// Methods of the store that report failures in their result, for those who want an error.

'use strict'

/** The result, if it is a success. */
function succeeded(result) {
  if (result.success) return result
  throw Object.assign(new Error(result.error, { cause: result.cause }), { code: result.code })
}

module.exports = { succeeded }
