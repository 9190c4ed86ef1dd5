-- Replaces a checkpoint that must exist, with its base if it is a delta. It keeps its time and its pin.
--
-- Locks: the session FOR SHARE, then the base.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 encoding, $6 time, $7 size, $8 base, $9 packed, $10 head, $11 tail, $12
-- middle, then those of the base.
WITH {session}
{base}
stored AS (
  UPDATE waymark.checkpoints SET
    encoding = $5::smallint, size = $7::bigint, key = $8::text, packed = $9::boolean,
    head = $10::bytea, tail = $11::bytea, middle = $12::bytea
  WHERE session = $1 AND agent = $3::text AND id = $4::text AND $6::bigint IS NOT NULL
    AND EXISTS (SELECT 1 FROM {base_ok})
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM stored), EXISTS (SELECT 1 FROM {base_ok})
