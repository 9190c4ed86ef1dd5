-- Replaces a whole base, or creates it. The session is created if it does not exist. `base_ok` reads the count of the pieces to
-- make sure that they are locked before anything is changed.
--
-- Locks: the session FOR SHARE, then all pieces of the base FOR UPDATE.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 bytes.
WITH {held_or_created_session}
base_pieces AS (
  SELECT start FROM waymark.keys
  WHERE session = $1 AND agent = $3::text AND id = $4::text AND EXISTS (SELECT 1 FROM admitted_session)
  ORDER BY start FOR UPDATE
),
base_ok AS (SELECT (SELECT count(*) FROM base_pieces) AS pieces FROM admitted_session),
deleted_pieces AS (
  DELETE FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = $4 AND start > 0 AND EXISTS (SELECT 1 FROM base_ok WHERE pieces >= 0)
),
stored AS (
  INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
  SELECT $1, $3, $4, 0, octet_length($5::bytea), $5 FROM base_ok WHERE pieces >= 0
  ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM stored)
