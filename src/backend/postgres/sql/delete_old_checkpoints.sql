-- Deletes the checkpoints of a series beyond the $6 newest that are not pinned, unless the session has retention rules of its
-- own. It is sent in the same round trip as the checkpoint $4, which it keeps, and does nothing if that one was refused. Deltas
-- are left to later deletions, because their bases have to be considered.
--
-- The commit is not synced: a deleted checkpoint that reappears after a power cut is harmless. Waits for row locks end after 100
-- ms, and at most 64 checkpoints are deleted, so that retention does not delay the caller. The deleted rows are found as a range
-- of the index, so the plan does not depend on the statistics of the table, as that of a join would.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 encoding, $6 checkpoints kept, $7 name of the document with the rules, $8
-- limit on its bytes.
WITH {held_session}
rules AS (
  SELECT d.size, d.packed, CASE WHEN greatest(d.size, octet_length(d.bytes)) <= $8 THEN d.bytes END AS bytes
  FROM waymark.documents d WHERE d.session = $1 AND d.name = $7
),
newest AS (
  SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $3
  ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
),
excess AS MATERIALIZED (
  SELECT made_at, id, encoding FROM waymark.checkpoints WHERE session = $1 AND agent = $3 AND NOT pinned
  ORDER BY made_at DESC, id DESC, encoding DESC OFFSET $6::bigint LIMIT 64
),
deleted AS (
  DELETE FROM waymark.checkpoints WHERE session = $1 AND agent = $3
    AND (made_at, id, encoding) <= (SELECT made_at, id, encoding FROM excess ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 1)
    AND (made_at, id, encoding) >= (SELECT made_at, id, encoding FROM excess ORDER BY 1, 2, 3 LIMIT 1)
    AND NOT (id = $4 AND encoding = $5) AND NOT pinned AND key IS NULL
    AND EXISTS (SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $3 AND id = $4)
    AND EXISTS (SELECT 1 FROM admitted_session)
    AND ($3 > '' OR NOT EXISTS (SELECT 1 FROM rules WHERE size IS NOT NULL))
    AND (SELECT set_config('synchronous_commit', 'off', true) || set_config('lock_timeout', '100', true)) > ''
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM deleted),
  (SELECT size FROM rules), (SELECT packed FROM rules), (SELECT bytes FROM rules),
  (SELECT count(*) < 64 AND count(*) = (SELECT count(*) FROM deleted) FROM excess), newest.*
FROM newest
