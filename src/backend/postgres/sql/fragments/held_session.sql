-- Locks the row of session $1 FOR SHARE until the transaction ends, so that the session and its lease do not change.
-- `admitted_session` has a row if the session exists and its lease admits the fencing token $2.
held_session AS (
  SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text AND present FOR SHARE
),
admitted_session AS (
  SELECT leased.id FROM held_session AS leased WHERE {lease_admits}
),
