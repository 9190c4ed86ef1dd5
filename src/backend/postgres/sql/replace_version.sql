-- Replaces an earlier version of a document.
--
-- $1 session, $2 fencing token, $3 name of the document, $4 number of the version, $5 size, $6 packed, $7 bytes.
WITH {held_session}
done AS (
  UPDATE waymark.previous SET size = $5, packed = $6, bytes = $7
  WHERE session = $1 AND name = $3 AND number = $4 AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM done)
