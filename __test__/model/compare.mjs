// Comparison of an answer with what the model expects.

/** Something that the model does not know in full, only what must hold for it. */
export class Matcher {
  constructor(description, accepts) {
    this.description = description
    this.accepts = accepts
  }

  toJSON() {
    return `<${this.description}>`
  }
}

export const matching = (description, accepts) => new Matcher(description, accepts)
export const anyString = matching('a string', (value) => typeof value === 'string' && value !== '')
export const anyNumber = matching('a number, 0 or more', (value) => Number.isFinite(value) && value >= 0)
export const anything = matching('anything', () => true)
export const oneOf = (...values) =>
  matching(`one of ${JSON.stringify(values)}`, (value) =>
    values.some((each) => differenceOf(value, each) === undefined),
  )

/** A list in any order. */
export function inAnyOrder(expected, keyOf) {
  const sorted = (list) => list.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  const matcher = matching(`in any order: ${shown(expected)}`, Array.isArray)
  matcher.differenceFrom = (actual, path) => differenceOf(sorted(actual), sorted(expected), path)
  return matcher
}

/** Where and how the two differ first; `undefined` if they do not. Members that are undefined are absent. */
export function differenceOf(actual, expected, path = '') {
  if (expected instanceof Matcher) {
    if (!expected.accepts(actual)) return { path, actual: shown(actual), expected: expected.description }
    return expected.differenceFrom?.(actual, path)
  }
  if (Object.is(actual, expected)) return undefined
  if (!isObject(actual) || !isObject(expected) || kindOf(actual) !== kindOf(expected)) {
    return { path, actual: shown(actual), expected: shown(expected) }
  }
  if (actual instanceof Uint8Array) {
    return Buffer.compare(actual, expected) === 0
      ? undefined
      : { path, actual: shown(actual), expected: shown(expected) }
  }
  if (Array.isArray(actual) && actual.length !== expected.length) {
    const ids = (list) => shown(list.map((each) => each?.id ?? each))
    if (actual.every(isObject)) return { path: `${path} (ids)`, actual: ids(actual), expected: ids(expected) }
    return { path, actual: shown(actual), expected: shown(expected) }
  }
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const found = differenceOf(actual[key], expected[key], `${path}.${key}`)
    if (found) return found
  }
  return undefined
}

const isObject = (value) => typeof value === 'object' && value !== null
const kindOf = (value) => (Array.isArray(value) ? 'array' : value instanceof Uint8Array ? 'bytes' : 'object')

/** A value in an error message: short, with matchers by their descriptions. */
export function shown(value) {
  const text = JSON.stringify(value)
  if (text === undefined) return String(value)
  return text.length > 1200 ? `${text.slice(0, 1200)}…` : text
}
