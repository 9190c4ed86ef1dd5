-- Sets the time of a checkpoint in any encoding.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 time.
WITH {held_session}
done AS (
  UPDATE waymark.checkpoints SET made_at = $5
  WHERE session = $1 AND agent = $3 AND id = $4 AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM done)
