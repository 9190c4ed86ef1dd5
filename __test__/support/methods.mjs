// Every method that needs an open store, with valid arguments.

import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { makeSession, makeTree } from './sessions.mjs'

const NOWHERE = join(tmpdir(), 'waymark-test-nowhere', 's.zst')

export const ALL_METHODS = {
  createSessionDirectory: ['s'],
  saveSession: [makeSession('s')],
  loadSession: ['s'],
  saveTaskTree: ['s', makeTree()],
  loadTaskTree: ['s'],
  listSessions: [],
  deleteSession: ['s'],
  createCheckpoint: [makeSession('s'), {}, {}, { trigger: 'manual', includeContext: true, compress: false }],
  listCheckpoints: ['s', 1, 0],
  listCheckpointInfo: ['s'],
  listAgents: ['s'],
  getCheckpoint: ['s', 'cp-1'],
  getLatestCheckpoint: ['s'],
  restoreCheckpoint: [{ checkpointId: 'cp-1' }],
  deleteCheckpoint: ['s', 'cp-1'],
  diffCheckpoints: ['s/cp-1', { sessionId: 's', checkpointId: 'cp-2' }],
  labelCheckpoint: ['s', 'cp-1', 'green', { unique: true }],
  getCheckpointByLabel: ['s', 'green'],
  pinCheckpoint: ['s', 'cp-1'],
  unpinCheckpoint: ['s', 'cp-1'],
  forkSession: [{ sessionId: 's', checkpointId: 'cp-1', newSessionId: 'other' }],
  history: ['s'],
  acquireSession: ['s', { ttlMs: 1000 }],
  acquireNext: [{ ttlMs: 1000 }],
  saveTaskResult: ['s', 't', 1],
  loadTaskResult: ['s', 't'],
  getSessionStorageStats: ['s'],
  sessionsInfo: [],
  sessionInfo: ['s'],
  listAllCheckpoints: [{ limit: 1 }],
  deleteSessionCheckpoints: ['s'],
  expireSessions: [0, { action: 'archive' }],
  recoverable: [],
  convert: ['s', 'json', {}],
  setRetention: ['s', { keepLast: 1 }],
  getRetention: ['s'],
  prune: [{ dryRun: true }],
  exportSession: ['s', NOWHERE, {}],
  importSession: [NOWHERE, {}],
}

/** The methods that return `{success: false}` instead of rejecting. */
export const REPORTING = new Set([
  'saveSession',
  'saveTaskTree',
  'deleteSession',
  'createCheckpoint',
  'restoreCheckpoint',
  'deleteCheckpoint',
  'labelCheckpoint',
  'pinCheckpoint',
  'unpinCheckpoint',
  'forkSession',
  'saveTaskResult',
])
