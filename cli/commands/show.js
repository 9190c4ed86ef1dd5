// One state of a session: its task tree, its agents, what went wrong, and its metrics.

'use strict'

const { commandLine } = require('../command-line.js')
const { failure } = require('../complaint.js')
const { isDamaged } = require('../damage.js')
const { section } = require('../terminal/lines.js')
const { agentLines, errorLines, header, metricLines, treeLines } = require('../portrait.js')

const LEVELS = 3
const SIBLINGS = 20
const ERRORS = 5

module.exports = {
  name: 'show',
  positionals: [
    {
      name: 'session[/checkpoint]',
      meaning:
        'A session, for its newest checkpoint, or one of its checkpoints: an id, a beginning, a label, latest~2.',
    },
  ],
  options: [
    {
      name: 'depth',
      short: 'd',
      value: 'number',
      meaning: `So many levels of the task tree. Without it ${LEVELS}, and what is all done or not begun is folded.`,
    },
    { name: 'all', short: 'a', meaning: 'All tasks, agents and errors: nothing is folded.' },
    { name: 'saved', meaning: 'The session as it was last saved or restored, instead of a checkpoint.' },
  ],
  document:
    'the checkpoint as getCheckpoint() gives it; { session, taskTree } with --saved or where there is no checkpoint; { sessionId, agents } where only agents stored anything',
  examples: [
    'waymark show nightly',
    'waymark show nightly/latest~2 --depth 5',
    'waymark show nightly/before-tests --json',
  ],
  run,
}

async function run(call) {
  const { wholeNumber } = require('../quantities.js')
  const levels = call.options.depth === undefined ? LEVELS : wholeNumber('--depth', call.options.depth)
  const store = await call.store()
  const state = await wanted(call, store)
  if (state.agents) return agentsAlone(state)
  const { lease } = (await store.sessionInfo(state.sessionId)) ?? {}
  const limits = call.options.all ? {} : limitsOf(call, levels)
  return {
    json: state.raw,
    text: (terminal) => [
      ...header(terminal, state, lease),
      ...section(terminal, 'Tasks', treeLines(terminal, state, limits)),
      ...section(terminal, 'Agents', agentLines(terminal, state, limits)),
      ...section(terminal, 'Errors', errorLines(terminal, state, limits)),
      ...section(terminal, 'Metrics', metricLines(terminal, state)),
    ],
  }
}

/** A session of which there is nothing but what its agents stored. */
function agentsAlone({ sessionId, agents }) {
  const { agentTable } = require('../agents.js')
  return {
    json: { sessionId, agents },
    text: (terminal) => [
      terminal.paint(sessionId, 'bold'),
      'It was never saved, and has no checkpoints but those of its agents.',
      ...section(terminal, 'Agents', agentTable(agents, terminal)),
    ],
  }
}

/** Who says how deep wants to see that deep; otherwise what is all done or not begun is one line. */
function limitsOf({ options }, levels) {
  return { levels: Math.max(1, levels), foldsQuiet: options.depth === undefined, siblings: SIBLINGS, errors: ERRORS }
}

/** The state that is to be shown: a checkpoint, or what the session was last saved as. */
async function wanted(call, store) {
  const references = require('../references.js')
  const { session, ref } = references.split(call.words['session[/checkpoint]'])
  const sessionId = await references.sessionId(store, session)
  const checkpoints = await references.checkpointsOf(store, sessionId)
  if (call.options.saved || (ref === undefined && checkpoints.length === 0)) {
    return saved(store, sessionId, checkpoints.length > 0)
  }
  const { id, info } = references.pick(checkpoints, ref ?? 'latest', sessionId, store)
  const back = checkpoints.findIndex((checkpoint) => checkpoint.id === id)
  const raw = await references.read(store, { sessionId, checkpointId: id }).catch((error) => {
    throw withOlder(error, store, sessionId, checkpoints, back)
  })
  // A state that was imported or copied knows itself by another name.
  return { ...raw, id, sessionId, raw, info, back }
}

/** Whoever wants to see what happened is helped by the one before, and need not restore anything. */
function withOlder(error, store, sessionId, checkpoints, back) {
  const older = checkpoints.findIndex(({ info }, index) => index > back && info)
  if (!isDamaged(error) || older < 0) return error
  const next = commandLine(store, 'show', [`${sessionId}/latest~${older}`])
  return failure(`${error.message}. ${next} shows the one before it.`)
}

async function saved(store, sessionId, hasCheckpoints) {
  const [session, taskTree] = await Promise.all([store.loadSession(sessionId), store.loadTaskTree(sessionId)])
  if (session || taskTree) return { sessionId, raw: { session, taskTree }, session, taskTree, agentStates: {} }
  if (hasCheckpoints) {
    const { wrongUse } = require('../complaint.js')
    throw wrongUse(`Session ${sessionId} was never saved. Leave out --saved to see its newest checkpoint.`)
  }
  const { listsOf } = require('../agents.js')
  return { sessionId, agents: await listsOf(store, sessionId) }
}
