-- Deletes a base, whether or not a delta is based on it.
--
-- $1 session, $2 fencing token, $3 agent, $4 id.
WITH {held_session}
deleted AS (
  DELETE FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = $4 AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM deleted)
