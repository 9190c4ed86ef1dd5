-- Creates session $1 if it does not exist, and locks it FOR UPDATE until the transaction ends: no other writer can add a newest
-- checkpoint meanwhile. Divides by zero if the lease does not admit the fencing token $2, or if another writer creates the
-- session at the same time.
WITH held_session AS (
  SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text FOR UPDATE
),
created_session AS (
  INSERT INTO waymark.sessions (id, present)
  SELECT $1, true WHERE NOT EXISTS (SELECT 1 FROM held_session) AND $2::bigint IS NULL
  ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT 1 / (
  (SELECT count(*) FROM held_session AS leased WHERE {lease_admits}) + (SELECT count(*) FROM created_session)
)
