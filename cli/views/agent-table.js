// The checkpoints that agents of a session have of their own.

'use strict'

const { commandLine } = require('./command-line.js')
const { conditionOf } = require('./damage.js')
const { shownOf } = require('./state.js')
const { table } = require('./terminal/table.js')
const { bytes, passed } = require('./terminal/units.js')

/** For each agent what `info()` lists of it, and its id. */
async function listsOf(store, session, limit) {
  const ids = await store.listAgents(session)
  return Promise.all(
    ids.map(async (agentId) => Object.assign({ agentId }, await store.agent(session, agentId).info({ limit }))),
  )
}

/** That a session has no checkpoints of its own, and where those of its agents are. */
async function noneBut(store, session) {
  const agents = await store.listAgents(session)
  const next =
    agents.length > 0 ? ` ${commandLine(store, 'ls', [session], ['--agents'])} lists those of its agents.` : ''
  return `Session ${session} has no checkpoints${next ? ' of its own' : ''}.${next}`
}

function agentTable(lists, terminal) {
  const { styleOf } = require('./terminal/status.js')
  const columns = [
    { title: 'AGENT', least: 8 },
    { title: 'CHECKPOINT' },
    { title: 'AGO', right: true },
    { title: 'ITERATION', right: true },
    { title: 'STATUS' },
    { title: 'LABEL', least: 8 },
    { title: 'MESSAGES', right: true, spare: 3, isLuxury: true },
    { title: 'TOKENS', right: true, spare: 1 },
    { title: 'SIZE', right: true },
    { title: 'CODEC', spare: 2 },
  ]
  const rows = lists.flatMap(({ agentId, checkpoints, damaged }) => {
    const whole = checkpoints.map((info) => [
      agentId,
      info.id,
      passed(info.timestamp),
      shownOf(info.iteration),
      { text: info.status, style: styleOf(info.status) },
      { text: info.label, style: 'cyan' },
      info.messageCount,
      shownOf(info.tokensUsed),
      bytes(info.sizeBytes),
      info.encoding,
    ])
    const others = damaged.map((item) => [
      agentId,
      item.id,
      '',
      '',
      { text: conditionOf(item), style: 'red' },
      '',
      '',
      '',
      '',
      '',
    ])
    return whole.concat(others)
  })
  return table(columns, rows, terminal)
}

module.exports = { agentTable, listsOf, noneBut }
