// Makes calls on the store under test, and writes down each as a line of JavaScript that can be run.

/** Records calls. Values that the store chose are written as references to the answers that they came from. */
export class CallLog {
  lines = []
  /** `Class.member` of everything that was used. */
  used = new Set()
  #expressions = new Map()
  #answers = 0

  /** Makes `text` appear as `expression` from now on. */
  name(text, expression) {
    if (typeof text === 'string' && text.length > 4 && !this.#expressions.has(text)) {
      this.#expressions.set(text, expression)
    }
  }

  note(line) {
    this.lines.push(line)
  }

  /** Calls a method; gives `{ value }`, or `{ code, error }` if the call was refused in one way or the other. */
  async call(className, receiver, object, method, args = [], passed = args) {
    this.used.add(`${className}.${String(method)}`)
    const answerName = `r${(this.#answers += 1)}`
    const member = typeof method === 'symbol' ? `[Symbol.${method.description.split('.').at(-1)}]` : `.${method}`
    const line = `const ${answerName} = await ${receiver}${member}(${args.map((arg) => this.written(arg)).join(', ')})`
    const at = this.lines.push(line) - 1
    const answer = await outcomeOf(async () => object[method](...passed))
    if (answer.code) this.lines[at] += ` // ${answer.isRejection ? 'rejects' : 'refused'}: ${answer.code}`
    this.#nameParts(answer.value, answerName)
    return { ...answer, name: answerName }
  }

  #nameParts(value, answerName) {
    for (const member of ['checkpointId', 'revision']) {
      if (typeof value?.[member] === 'string') this.name(value[member], `${answerName}.${member}`)
    }
  }

  /** A value as JavaScript. */
  written(value) {
    if (typeof value === 'string') return this.#writtenString(value)
    if (value instanceof Map) return `new Map(${this.written([...value])})`
    if (value instanceof Uint8Array) return `new Uint8Array([${[...value]}])`
    if (value instanceof Date) return `new Date(${Number(value)})`
    if (typeof value === 'bigint') return `${value}n`
    if (value instanceof Written) return String(value)
    if (typeof value === 'function') return '() => {}'
    if (Array.isArray(value)) return `[${value.map((each) => this.written(each)).join(', ')}]`
    if (typeof value !== 'object' || value === null) return String(value)
    const members = Object.entries(value).filter(([, each]) => each !== undefined)
    return `{ ${members.map(([key, each]) => `${JSON.stringify(key)}: ${this.written(each)}`).join(', ')} }`
  }

  #writtenString(value) {
    const expression = this.#expressions.get(value)
    if (expression) return expression
    const [session, checkpoint] = value.split('/')
    const second = this.#expressions.get(checkpoint)
    return second ? `\`${session}/\${${second}}\`` : JSON.stringify(value)
  }
}

/** Something that is written in a way of its own. */
export class Written {
  constructor(text) {
    this.text = text
  }

  toString() {
    return this.text
  }
}

/** What became of a call. */
export async function outcomeOf(work) {
  try {
    const value = await work()
    if (value?.success === false)
      return { code: value.code, error: value.error, current: value.current, isRejection: false }
    return { value }
  } catch (error) {
    return { code: error?.code ?? 'no code', error: error?.message ?? String(error), isRejection: true }
  }
}
