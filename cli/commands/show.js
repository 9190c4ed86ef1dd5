// Shows one state of a session: task tree, agents, errors and metrics.

'use strict'

const { failure } = require('../cli-error.js')
const { commandLine } = require('../input/command-line.js')
const { section } = require('../terminal/lines.js')
const { isDamaged } = require('../views/damage.js')
const { agentLines, errorLines, headerLines, metricLines, treeLines } = require('../views/session-view.js')

const MAX_LEVELS = 3
const MAX_SIBLINGS = 20
const MAX_ERRORS = 5

module.exports = {
  name: 'show',
  positionals: [
    {
      name: 'session[/checkpoint]',
      description:
        'A session, for its newest checkpoint, or one of its checkpoints: an id, a unique prefix, a label, latest~2.',
    },
  ],
  options: [
    {
      name: 'depth',
      short: 'd',
      value: 'number',
      description: `Show this many levels of the task tree. Default ${MAX_LEVELS}, with completed and pending subtrees collapsed.`,
    },
    { name: 'all', short: 'a', description: 'Show all tasks, agents and errors.' },
    { name: 'saved', description: 'Show the last saved or restored state instead of a checkpoint.' },
  ],
  jsonResult:
    'the checkpoint as getCheckpoint() returns it; { session, taskTree } with --saved or without checkpoints; { sessionId, agents } if only agents have checkpoints',
  examples: [
    'waymark show nightly',
    'waymark show nightly/latest~2 --depth 5',
    'waymark show nightly/before-tests --json',
  ],
  run,
}

async function run(context) {
  const { wholeNumber } = require('../input/quantities.js')
  const levels = context.options.depth === undefined ? MAX_LEVELS : wholeNumber('--depth', context.options.depth)
  const store = await context.store()
  const state = await readState(context, store)
  if (state.agents) return agentsOnly(state)
  const { lease } = (await store.sessionInfo(state.sessionId)) ?? {}
  const limits = context.options.all ? {} : limitsOf(context, levels)
  return {
    json: state.raw,
    text: (terminal) => [
      ...headerLines(terminal, state, lease),
      ...section(terminal, 'Tasks', treeLines(terminal, state, limits)),
      ...section(terminal, 'Agents', agentLines(terminal, state, limits)),
      ...section(terminal, 'Errors', errorLines(terminal, state, limits)),
      ...section(terminal, 'Metrics', metricLines(terminal, state)),
    ],
  }
}

/** A session in which only agents have checkpoints. */
function agentsOnly({ sessionId, agents }) {
  const { agentTable } = require('../views/agent-table.js')
  return {
    json: { sessionId, agents },
    text: (terminal) => [
      terminal.paint(sessionId, 'bold'),
      'It was never saved, and only its agents have checkpoints.',
      ...section(terminal, 'Agents', agentTable(agents, terminal)),
    ],
  }
}

/** An explicit depth also shows the subtrees that are collapsed by default. */
function limitsOf({ options }, levels) {
  return {
    levels: Math.max(1, levels),
    collapseSettled: options.depth === undefined,
    siblings: MAX_SIBLINGS,
    errors: MAX_ERRORS,
  }
}

/** The state to show: a checkpoint, or the saved state. */
async function readState(context, store) {
  const references = require('../input/references.js')
  const { session, ref } = references.split(context.args['session[/checkpoint]'])
  const sessionId = await references.sessionId(store, session)
  const checkpoints = await references.checkpointsOf(store, sessionId)
  if (context.options.saved || (ref === undefined && checkpoints.length === 0)) {
    return readSaved(store, sessionId, checkpoints.length > 0)
  }
  const { id, info } = references.pick(checkpoints, ref ?? 'latest', sessionId, store)
  const back = checkpoints.findIndex((checkpoint) => checkpoint.id === id)
  const raw = await references.readCheckpoint(store, { sessionId, checkpointId: id }).catch((error) => {
    throw withOlder(error, store, sessionId, checkpoints, back)
  })
  // The ids inside an imported or copied state may be others.
  return { ...raw, id, sessionId, raw, info, back }
}

/** For a damaged checkpoint, points to the next older one. */
function withOlder(error, store, sessionId, checkpoints, back) {
  const older = checkpoints.findIndex(({ info }, index) => index > back && info)
  if (!isDamaged(error) || older < 0) return error
  const next = commandLine(store, 'show', [`${sessionId}/latest~${older}`])
  return failure(`${error.message}. ${next} shows the previous one.`)
}

async function readSaved(store, sessionId, hasCheckpoints) {
  const [session, taskTree] = await Promise.all([store.loadSession(sessionId), store.loadTaskTree(sessionId)])
  if (session || taskTree) return { sessionId, raw: { session, taskTree }, session, taskTree, agentStates: {} }
  if (hasCheckpoints) {
    const { usageError } = require('../cli-error.js')
    throw usageError(`Session ${sessionId} was never saved. Leave out --saved to see its newest checkpoint.`)
  }
  const { readAgentLists } = require('../views/agent-table.js')
  return { sessionId, agents: await readAgentLists(store, sessionId) }
}
