// Encodes calls and errors between processes.

/** `{ $abortMs }` becomes `{ signal }` of a signal that aborts after so many milliseconds. */
export function withSignal(argument) {
  if (!argument || typeof argument !== 'object' || !('$abortMs' in argument)) return argument
  const { $abortMs, ...options } = argument
  const controller = new AbortController()
  setTimeout(() => controller.abort(), $abortMs)
  return { ...options, signal: controller.signal }
}

/** The members of an error, or of a result with `success: false`, that are transmitted. */
export function plainError(error) {
  return {
    message: String(error?.error ?? error?.message ?? error),
    code: error?.code,
    cause: error?.cause?.code ?? error?.cause?.message,
  }
}

export const asError = ({ message, code, cause }) => Object.assign(new Error(message), { code, causeCode: cause })

/** Rejects if the result has `success: false`. */
export function succeeded(value) {
  if (value && typeof value === 'object' && value.success === false) throw asError(plainError(value))
  return value
}

/** The message of a failure, with its code. */
export const told = (error) => {
  const { message, code, cause } = plainError(error)
  return `${code ?? 'no code'}${(error?.causeCode ?? cause) ? ` (${error.causeCode ?? cause})` : ''}: ${message}`
}
