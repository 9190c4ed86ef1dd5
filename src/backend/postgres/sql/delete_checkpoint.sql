-- Deletes a checkpoint in any encoding, if {condition}, and the base that no other delta is based on.
--
-- The caller holds the lock of the session from an earlier statement of the transaction. A concurrent delta on the same base is
-- therefore visible here, or finds the base missing.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, then those of the condition.
WITH {held_session}
deleted AS (
  DELETE FROM waymark.checkpoints
  WHERE session = $1 AND agent = $3 AND id = $4
    AND {condition}
    AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING key
),
deleted_base AS (
  DELETE FROM waymark.keys USING deleted
  WHERE keys.session = $1 AND keys.agent = $3 AND keys.id = deleted.key AND NOT EXISTS (
    SELECT 1 FROM waymark.checkpoints c
    WHERE c.session = $1 AND c.agent = $3 AND c.key = deleted.key AND c.id <> $4
  )
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM deleted)
