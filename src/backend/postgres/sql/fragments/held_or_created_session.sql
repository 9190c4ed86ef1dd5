-- Like `held_session`, and creates session $1 if it does not exist.
--
-- `admitted_session` has no row if a checkpoint was pinned or unpinned while the statement waited for the lock: everything else
-- that the statement reads is older than the pin, so it has to be repeated. A session that was deleted just before it would be
-- created for the holder of its lease divides by zero: the lease was deleted with it.
held_session AS (
  SELECT id, pins, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text AND present FOR SHARE
),
created_session AS (
  INSERT INTO waymark.sessions AS leased (id, present)
  SELECT $1, true
  WHERE NOT EXISTS (SELECT 1 FROM held_session)
    AND ($2::bigint IS NULL OR EXISTS (SELECT 1 FROM waymark.sessions WHERE id = $1))
  ON CONFLICT (id) DO UPDATE SET present = true WHERE {lease_admits}
  RETURNING id, 1 / (CASE WHEN lease_number IS NULL AND $2 IS NOT NULL THEN 0 ELSE 1 END)
),
admitted_session AS (
  SELECT leased.id FROM held_session AS leased
  WHERE leased.pins = (SELECT pins FROM waymark.sessions WHERE id = $1) AND {lease_admits}
  UNION ALL SELECT created_session.id FROM created_session
),
