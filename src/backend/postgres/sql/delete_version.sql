-- Deletes an earlier version of a document.
--
-- $1 session, $2 fencing token, $3 name of the document, $4 number of the version.
WITH {held_session}
deleted AS (
  DELETE FROM waymark.previous
  WHERE session = $1 AND name = $3 AND number = $4 AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM deleted)
