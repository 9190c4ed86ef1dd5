-- Moves a checkpoint to the table of damaged ones, if it still holds the bytes that were judged. Its base stays: it may show what
-- was damaged. The caller holds the lock of the session. A retry finds the checkpoint under its new name.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 encoding, $6 new name, $7 size, $8 packed, $9 head, $10 tail, $11 middle.
WITH {held_session}
deleted AS (
  DELETE FROM waymark.checkpoints
  WHERE session = $1 AND agent = $3 AND id = $4 AND encoding = $5
    AND size = $7::bigint AND packed = $8::boolean AND head = $9::bytea AND tail = $10::bytea AND middle = $11::bytea
    AND EXISTS (SELECT 1 FROM admitted_session)
  RETURNING size, packed, head, tail, middle
),
quarantined AS (
  INSERT INTO waymark.damaged (session, name, size, packed, head, tail, middle)
  SELECT $1, $6::text, size, packed, head, tail, middle FROM deleted RETURNING 1
),
done AS (
  SELECT 1 FROM quarantined UNION ALL SELECT 1 FROM waymark.damaged WHERE session = $1 AND name = $6
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM done)
