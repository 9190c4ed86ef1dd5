-- Deletes a document. Its row stays: earlier versions need its numbers, and a retry of this change finds its token there.
--
-- $1 session, $2 fencing token, $3 name, $4 token of this change.
WITH {held_session}
deleted AS (
  UPDATE waymark.documents SET
    size = NULL, packed = NULL, bytes = NULL, tokens = (ARRAY[$4::uuid] || tokens)[1:64],
    changed_at = (ARRAY[clock_timestamp()] || changed_at)[1:64]
  WHERE session = $1 AND name = $3 AND size IS NOT NULL AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING 1
),
done AS (
  SELECT 1 FROM deleted
  UNION ALL SELECT 1 FROM waymark.documents WHERE session = $1 AND name = $3 AND $4 = ANY (tokens)
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM done)
