import assert from 'node:assert/strict'
import { cpSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { checkpointFiles, originalChecksum, readCheckpointText } from '../support/original-format.mjs'
import { openStore, scratchDirectory } from '../support/stores.mjs'

// sessions/ was written by the original TypeScript store, and expected.json is what its read methods answered.
const FIXTURE = fileURLToPath(new URL('../fixtures/original-store', import.meta.url))
const expected = JSON.parse(readFileSync(join(FIXTURE, 'expected.json'), 'utf8'))

async function openCopy() {
  const base = scratchDirectory()
  cpSync(join(FIXTURE, 'sessions'), base, { recursive: true })
  return { base, store: await openStore(base) }
}

const withoutSize = ({ sizeBytes: _, ...checkpoint }) => checkpoint

describe('a directory of the original store', () => {
  it('has the same sessions', async () => {
    const { store } = await openCopy()
    assert.deepEqual(await store.listSessions(), expected.sessions)
  })

  it('has the same sessions, trees, results and statistics', async () => {
    const { store } = await openCopy()
    for (const id of expected.sessions) {
      assert.deepEqual(await store.loadSession(id), expected.loadSession[id])
      assert.deepEqual(await store.loadTaskTree(id), expected.loadTaskTree[id])
      assert.deepEqual(await store.getSessionStorageStats(id), expected.stats[id])
    }
    for (const [taskId, result] of Object.entries(expected.taskResults)) {
      assert.deepEqual(await store.loadTaskResult('plain-session', taskId), result)
    }
  })

  it('has the same checkpoints in the same order with their stored size', async () => {
    const { base, store } = await openCopy()
    for (const id of expected.sessions) {
      const { checkpoints, total, damaged } = await store.listCheckpoints(id)
      assert.equal(total, expected.checkpoints[id].total)
      assert.deepEqual(damaged, [])
      assert.deepEqual(checkpoints.map(withoutSize), expected.checkpoints[id].newestFirst.map(withoutSize))
      assert.deepEqual(
        checkpoints.map((checkpoint) => checkpoint.sizeBytes).toSorted(),
        checkpointFiles(base, id)
          .map((path) => statSync(path).size)
          .toSorted(),
      )
      const [newest] = expected.checkpoints[id].newestFirst
      assert.deepEqual(withoutSize(await store.getLatestCheckpoint(id)), withoutSize(newest))
      for (const checkpoint of checkpoints) {
        assert.deepEqual(await store.getCheckpoint(id, checkpoint.id), checkpoint)
      }
    }
  })

  it('restores every checkpoint with its checksum validated', async () => {
    const { store } = await openCopy()
    for (const id of expected.sessions) {
      for (const checkpoint of expected.checkpoints[id].newestFirst) {
        const result = await store.restoreCheckpoint({ checkpointId: checkpoint.id, validateChecksum: true })
        assert.deepEqual(result, {
          success: true,
          sessionId: id,
          restoredTasks: Object.keys(checkpoint.taskTree).length,
          restoredAgents: Object.keys(checkpoint.agentStates).length,
          warnings: [],
        })
        assert.deepEqual(await store.loadSession(id), checkpoint.session)
        assert.deepEqual(await store.loadTaskTree(id), checkpoint.taskTree)
      }
    }
  })

  it('keeps session, tree and result files byte for byte when they are saved again', async () => {
    const { base, store } = await openCopy()
    const saveAgain = async (path, save) => {
      const before = readFileSync(join(base, path))
      const result = await save()
      assert.equal(result.path, join(base, path))
      assert.deepEqual(readFileSync(join(base, path)), before)
    }
    for (const id of expected.sessions) {
      await saveAgain(`${id}/session.json`, async () => store.saveSession(await store.loadSession(id)))
      await saveAgain(`${id}/task-tree.json`, async () => store.saveTaskTree(id, await store.loadTaskTree(id)))
    }
    for (const taskId of Object.keys(expected.taskResults)) {
      await saveAgain(`plain-session/results/${taskId}.json`, async () =>
        store.saveTaskResult('plain-session', taskId, await store.loadTaskResult('plain-session', taskId)),
      )
    }
  })

  it('keeps checkpoint files byte for byte when they are created again', async () => {
    const { base, store } = await openCopy()
    for (const id of expected.sessions) {
      for (const path of checkpointFiles(base, id)) {
        const text = readCheckpointText(path)
        const old = JSON.parse(text)
        const session = {
          ...old.session,
          taskTree: old.taskTree,
          checkpointIds: old.session.checkpointIds.slice(0, -1),
        }
        const made = await store.createCheckpoint(session, old.agentStates, old.contextStore, {
          trigger: old.trigger,
          description: old.description,
          includeContext: true,
          compress: path.endsWith('.gz'),
          metadata: old.metadata,
        })
        // Restore what differs by design: id, time and the checksums over them.
        const madeText = readCheckpointText(made.path)
        const remade = JSON.parse(madeText)
        const aged = madeText
          .replaceAll(remade.id, old.id)
          .replace(String(remade.timestamp), String(old.timestamp))
          .replace(remade.checksum, old.checksum)
          .replace(/,\s*"taskCount":[^}]*"integrity": ?"[0-9a-f]{64}"/, '')
        assert.equal(aged, text)
        assert.equal(remade.checksum, originalChecksum(remade))
      }
    }
  })
})
