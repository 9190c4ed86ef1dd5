// States that change slightly from one checkpoint to the next, reproducibly.

import { Writer, makeResult, makeState } from './states.mjs'

export const HISTORIES = {
  /** 1,000 tasks, of which 1 % change between two checkpoints. */
  'one percent': () => tasksGetOn(10),
  'ten percent': () => tasksGetOn(100),
  conversation,
}

/** Some tasks finish, and finished ones are repeated: their results grow. */
function tasksGetOn(changed) {
  const state = makeState(1000)
  const tasks = Object.values(state.session.taskTree)
  const write = new Writer(7, true)
  let step = 0
  return () => {
    step += 1
    if (step === 1) return state
    for (let count = 0; count < changed; count += 1) {
      const task = tasks[write.number(tasks.length)]
      task.completedAt = write.time(1000 + step)
      if (task.result === undefined) {
        Object.assign(task, { status: 'completed', startedAt: write.time(999 + step), result: makeResult(write) })
      } else {
        task.result.output += `\n\n${write.sentence()}`
        task.result.metrics.tokensUsed += write.number(9999)
      }
    }
    state.session.lastCheckpointId = `step-${step}`
    return state
  }
}

/** A conversation that grows by a question, an answer with a tool call, and its result. */
function conversation() {
  const state = makeState(1)
  const write = new Writer(11, true)
  const messages = []
  state.contextStore = { messages }
  return () => {
    messages.push(
      { role: 'user', content: write.text(3) },
      {
        role: 'assistant',
        content: write.text(4),
        toolCalls: [{ id: `call_${write.hex(12)}`, name: 'read_file', arguments: { path: write.path() } }],
      },
      { role: 'tool', content: `${write.code()}\n\n${write.text(5)}` },
    )
    return state
  }
}
