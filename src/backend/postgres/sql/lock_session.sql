-- Locks session $1 FOR UPDATE until the transaction ends: no other writer can change anything in it. Divides by zero if the
-- session does not exist or its lease does not admit the fencing token $2.
WITH held_session AS (
  SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1 AND present FOR UPDATE
)
SELECT 1 / count(*) FROM held_session AS leased WHERE {lease_admits}
