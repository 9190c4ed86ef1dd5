-- Deletes the bases of a series that no checkpoint is based on. Answers whether the lease prevented it, and the bytes that were
-- deleted. The caller holds the lock of the session. If nothing is unused, no lease is needed.
--
-- $1 session, $2 fencing token, $3 agent.
WITH unused AS (
  SELECT id, start FROM waymark.keys WHERE session = $1 AND agent = $3 AND NOT EXISTS (
    SELECT 1 FROM waymark.checkpoints c WHERE c.session = $1 AND c.agent = $3 AND c.key = keys.id
  )
),
deleted AS (
  DELETE FROM waymark.keys USING unused, waymark.sessions AS leased
  WHERE keys.session = $1 AND keys.agent = $3 AND keys.id = unused.id AND keys.start = unused.start
    AND leased.id = $1 AND {lease_admits}
  RETURNING keys.size
)
SELECT EXISTS (SELECT 1 FROM unused) AND NOT EXISTS (SELECT 1 FROM deleted),
  (SELECT coalesce(sum(size), 0)::bigint FROM deleted)
