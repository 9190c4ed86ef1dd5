// Methods of the store that report failures in their result.

'use strict'

/** Returns a successful result; throws the failure of any other as an error with its code and cause. */
function assertSuccess(result) {
  if (result.success) return result
  throw Object.assign(new Error(result.error, { cause: result.cause }), { code: result.code })
}

module.exports = { assertSuccess }
