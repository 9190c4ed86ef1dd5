// A short run of the mixed campaign of `npm run test:faults`.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { runCampaign } from '../../faults/mixed/campaign.mjs'
import { kinds } from '../../faults/mixed/judge.mjs'
import { durableBackends } from '../support/stores.mjs'

const SECONDS = { files: 25, sqlite: 25, memory: 10, postgres: 30 }
const STORM_SECONDS = 8

const backends = durableBackends.includes('postgres') ? durableBackends : [...durableBackends, 'memory']

describe('several stores with mixed operations on one location', () => {
  for (const backend of backends) {
    const seed = Number(process.env.WAYMARK_SEED ?? 1)
    it(`lose nothing acknowledged (${backend}, seed ${seed})`, { timeout: 600_000 }, async () => {
      const rows = await runCampaign({
        backend,
        seed,
        seconds: SECONDS[backend],
        stormSeconds: STORM_SECONDS,
        postgresUrl: process.env.WAYMARK_TEST_DATABASE_URL,
      })
      const wrong = rows.flatMap(({ name, found }) =>
        kinds(found).map(({ count, example }) => `${name}: ${count} × such as: ${example}`),
      )
      assert.deepEqual(wrong, [])
    })
  }
})
