// The checkpoints of a session's agents.

'use strict'

const { commandLine } = require('../input/command-line.js')
const { damageState } = require('./damage.js')
const { displayValue } = require('./stored-state.js')
const { table } = require('../terminal/table.js')
const { bytes, age } = require('../terminal/units.js')

/** For each agent its id and the result of its `info()`. */
async function readAgentLists(store, session, limit) {
  const ids = await store.listAgents(session)
  return Promise.all(
    ids.map(async (agentId) => Object.assign({ agentId }, await store.agent(session, agentId).info({ limit }))),
  )
}

/** The message for a session without checkpoints of its own; it points to those of its agents. */
async function noCheckpointsMessage(store, session) {
  const agents = await store.listAgents(session)
  if (agents.length === 0) return `Session ${session} has no checkpoints.`
  const list = commandLine(store, 'ls', [session], ['--agents'])
  return `Session ${session} has no checkpoints of its own. ${list} lists those of its agents.`
}

function agentTable(lists, terminal) {
  const { styleOf } = require('./status-style.js')
  const columns = [
    { title: 'AGENT', minWidth: 8 },
    { title: 'CHECKPOINT' },
    { title: 'AGO', alignRight: true },
    { title: 'ITERATION', alignRight: true },
    { title: 'STATUS' },
    { title: 'LABEL', minWidth: 8 },
    { title: 'MESSAGES', alignRight: true, dropPriority: 3, dropFirst: true },
    { title: 'TOKENS', alignRight: true, dropPriority: 1 },
    { title: 'SIZE', alignRight: true },
    { title: 'CODEC', dropPriority: 2 },
  ]
  const rows = lists.flatMap(({ agentId, checkpoints, damaged }) => {
    const readable = checkpoints.map((info) => [
      agentId,
      info.id,
      age(info.timestamp),
      displayValue(info.iteration),
      { text: info.status, style: styleOf(info.status) },
      { text: info.label, style: 'cyan' },
      info.messageCount,
      displayValue(info.tokensUsed),
      bytes(info.sizeBytes),
      info.encoding,
    ])
    const unreadable = damaged.map((item) => [
      agentId,
      item.id,
      '',
      '',
      { text: damageState(item), style: 'red' },
      '',
      '',
      '',
      '',
      '',
    ])
    return readable.concat(unreadable)
  })
  return table(columns, rows, terminal)
}

module.exports = { agentTable, readAgentLists, noCheckpointsMessage }
