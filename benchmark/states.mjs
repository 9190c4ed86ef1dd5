// Reproducible states of a realistic shape and size: long prompts and results in sentences with a natural
// spread of words, names of files and functions, numbers, hashes, and a few long lists.

// The most frequent first: like in natural text, the n-th is drawn about 1/n as often as the first.
const WORDS = `the to and a of in is for it that with on as be this from are by not or all when which has was an at
  if each one its must only then into no can code test file function error use after before new value should call
  module parser tests failed because other without returns than them more so type line service first request still
  cache result between same does query task session now while check where list user both database already handle been
  would write reads schema every client memory state after two build wrong change next data queue token second found
  retry path until path keeps missing default config several order update version release there input output limit
  version index until package field server again old during longer public import small large loop thread key null
  empty column fails timeout stream batch buffer event agent message branch commit merge conflict review summary plan
  step checked measured removed added moved split renamed covered documented stable migration rollback deploy lock
  window header payload encode decode compress parse validate render layout component hook router endpoint middleware
  permission role tenant invoice currency locale timezone calendar schedule deadline estimate backlog milestone
  regression coverage fixture snapshot assertion deterministic flaky concurrency deadlock starvation backpressure
  idempotent transaction isolation replica shard partition consensus quorum lease heartbeat watermark checkpoint
  tombstone compaction allocation fragment pointer alignment overflow precision rounding tolerance threshold heuristic
  ambiguous redundant obsolete deprecated experimental unreachable recursive iterative lazy eager immutable mutable
  synchronous asynchronous blocking quadratic logarithmic amortised negligible noticeable considerable surprisingly
  eventually meanwhile therefore however otherwise nevertheless accordingly`.split(/\s+/)

const FOREIGN = [
  '検査は完了しました',
  'überprüft',
  'проверка',
  'résumé',
  'naïve',
  '→',
  '✓',
  '🟦',
  'größer',
  '日本語の説明',
]
const ROLES = ['analysis', 'implementation', 'testing', 'documentation', 'debugging', 'planner']
const TOOLS = ['read_file', 'write_file', 'run_tests', 'search', 'list_directory']

/** A session with `count` tasks (about 1.2 KB of JSON each), its agents and its context. */
export function makeState(count, { ascii = true } = {}) {
  const write = new Writer(count, ascii)
  const tasks = Array.from({ length: count }, (_, index) => makeTask(index, count, write))
  const agents = Array.from({ length: Math.max(2, Math.floor(count / 20)) }, (_, index) => makeAgent(index, write))
  return {
    session: makeSession(Object.fromEntries(tasks.map((task) => [task.id, task]))),
    agentStates: Object.fromEntries(agents.map((agent) => [agent.id, agent])),
    contextStore: makeContext(count, write),
  }
}

/** The state of an agent with `count` messages: about 0.6 KB of JSON each, tool calls included. */
export function makeAgentState(messages) {
  const write = new Writer(messages, true)
  const tree = Object.values(makeState(messages).session.taskTree)
  return {
    iteration: messages,
    status: 'in_progress',
    tokensUsed: 12_000,
    messages: tree.map((task, index) => ({ role: index % 2 ? 'assistant' : 'user', content: task.prompt })),
    toolCalls: tree.slice(0, messages / 5).map((task) => ({
      toolName: TOOLS[write.number(TOOLS.length)],
      arguments: { path: task.workFolder },
      result: task.prompt,
      success: true,
    })),
    resumeHint: tree[0].prompt,
  }
}

function makeTask(index, count, write) {
  const isDone = write.number(3) > 0
  const firstChild = index * 10 + 1
  return {
    id: `task-${index}-${write.hex(6)}`,
    parentId: index === 0 ? null : `task-${Math.floor((index - 1) / 10)}`,
    depth: Math.floor(Math.log10(index * 9 + 1)),
    children: Array.from(
      { length: Math.max(0, Math.min(3, count - firstChild)) },
      (_, at) => `task-${firstChild + at}`,
    ),
    prompt: write.text(4),
    role: ROLES[write.number(ROLES.length)],
    workFolder: `/srv/repo/packages/${write.word()}`,
    returnMode: 'summary',
    dependencies: index > 1 ? [`task-${write.number(index)}`] : [],
    status: isDone ? 'completed' : index % 7 === 0 ? 'in_progress' : 'pending',
    priority: ['critical', 'high', 'medium', 'low'][write.number(4)],
    retryCount: write.number(3),
    maxRetries: 3,
    createdAt: write.time(index),
    tags: ['auto', write.word()],
    metadata: { attempt: 1, score: write.number(1_000_000) / 1_000_003 },
    ...(isDone && {
      startedAt: write.time(index + 1),
      completedAt: write.time(index + 2),
      result: makeResult(write),
    }),
  }
}

export function makeResult(write) {
  return {
    success: true,
    output: `${write.text(5)}\n\n${write.code()}`,
    summary: write.sentence(),
    metrics: {
      executionTimeMs: write.number(99_999),
      tokensUsed: write.number(99_999),
      apiCalls: write.number(40),
    },
  }
}

function makeAgent(index, write) {
  return {
    id: `agent-${index}`,
    role: ROLES[index % ROLES.length],
    workFolder: '/srv/repo',
    priority: 'medium',
    contextData: { lastTools: [TOOLS[write.number(5)], TOOLS[write.number(5)]], note: write.sentence() },
    maxRetries: 3,
    timeoutMs: 60_000,
    createdAt: write.time(0),
    state: 'running',
    completedTasks: write.number(50),
    failedTasks: write.number(3),
    totalExecutionTimeMs: write.number(9_999_999),
    lastActivityAt: write.time(index),
  }
}

function makeContext(count, write) {
  const files = Array.from({ length: Math.ceil(count / 10) }, () => write.path())
  return {
    plan: write.text(4),
    decisions: Array.from({ length: 5 }, () => write.sentence()),
    hashes: Object.fromEntries(files.map((path) => [path, write.hex(40)])),
    embedding: Array.from({ length: Math.min(256, count) }, () => write.number(2_000_000) / 1_000_000 - 1),
  }
}

function makeSession(taskTree) {
  return {
    id: 'bench',
    name: 'Benchmark',
    status: 'active',
    rootTaskId: 'task-0',
    taskTree,
    lastCheckpointId: null,
    checkpointIds: [],
    autoCheckpointIntervalMs: 300_000,
    config: { maxConcurrentAgents: 100 },
    createdAt: 1_700_000_000_000,
    expiresAt: 1_700_604_800_000,
    metrics: { totalTasks: Object.keys(taskTree).length },
    errors: [],
  }
}

/** Draws numbers, words and sentences from one seed. */
export class Writer {
  #state
  #ascii

  constructor(seed, ascii) {
    this.#state = seed + 1
    this.#ascii = ascii
  }

  number(limit) {
    // The multiplier and increment of an old, well-known generator; the low bits are dropped.
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * limit)
  }

  word() {
    const rank = Math.floor(Math.exp((this.number(1_000_000) / 1_000_000) * Math.log(WORDS.length + 1)))
    if (!this.#ascii && this.number(40) === 0) return FOREIGN[this.number(FOREIGN.length)]
    return WORDS[Math.min(rank, WORDS.length) - 1]
  }

  sentence() {
    const words = Array.from({ length: 6 + this.number(12) }, () => this.word())
    if (this.number(3) === 0) words[2] = `\`${this.name()}()\``
    if (this.number(4) === 0) words[4] = this.path()
    if (this.number(4) === 0) words[5] = String(this.number(5000))
    const text = words.join(' ')
    return `${text[0].toUpperCase()}${text.slice(1)}.`
  }

  text(sentences) {
    return Array.from({ length: sentences }, () => this.sentence()).join(' ')
  }

  code() {
    const name = this.name()
    return `export function ${name}(${this.word()}, options = {}) {\n  if (!${this.word()}) throw new Error("${this.word()} ${this.word()}")\n  return ${this.name()}(options.${this.word()} ?? ${this.number(1000)})\n}`
  }

  name() {
    const second = this.#latin()
    return `${this.#latin()}${second[0].toUpperCase()}${second.slice(1)}`
  }

  path() {
    return `src/${this.#latin()}/${this.#latin()}-${this.#latin()}.ts:${this.number(900)}`
  }

  hex(digits) {
    return Array.from({ length: digits }, () => this.number(16).toString(16)).join('')
  }

  time(index) {
    return 1_700_000_000_000 + index * 1000 + this.number(1000)
  }

  #latin() {
    return WORDS[this.number(WORDS.length)]
  }
}
