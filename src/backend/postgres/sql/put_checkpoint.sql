-- Stores a checkpoint, with its base if it is a delta, if its precondition holds. A checkpoint of that id in any encoding is
-- replaced and keeps its time and its pin. If it must become the newest, none is replaced: another store has chosen the same id.
--
-- Locks: the session FOR SHARE, then the base. The statement sees every checkpoint that was acknowledged before it began; one
-- that is stored concurrently may come before or after it.
--
-- $1 session, $2 fencing token, $3 agent, $4 id, $5 encoding, $6 time, $7 size, $8 base, $9 packed, $10 head, $11 tail, $12
-- middle, $13 whether it must become the newest, $14 ids that may be newer, $15 whether the newest must be $16, then those of the
-- base.
WITH {session}
newest AS (
  SELECT id FROM waymark.checkpoints WHERE session = $1 AND agent = $3::text
  ORDER BY made_at DESC, id DESC LIMIT 1
),
newer AS (
  SELECT id, encoding, made_at, pinned FROM waymark.checkpoints
  WHERE $13::boolean AND session = $1 AND agent = $3 AND (made_at, id) >= ($6::bigint, $4::text)
    AND id <> ALL ($14::text[])
  ORDER BY made_at DESC, id DESC LIMIT 1
),
precondition_ok AS (
  SELECT admitted_session.id FROM admitted_session
  WHERE (NOT $15::boolean OR (SELECT id FROM newest) IS NOT DISTINCT FROM $16::text)
    AND NOT EXISTS (SELECT 1 FROM newer)
),
{base}
stored AS (
  INSERT INTO waymark.checkpoints
    (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
  SELECT $1, $3::text, $4::text, $5::smallint, $6::bigint, false,
    $7::bigint, $8::text, $9::boolean, $10::bytea, $11::bytea, $12::bytea
  FROM {base_ok}
  ON CONFLICT (id, session, agent) DO UPDATE SET
    encoding = excluded.encoding, size = excluded.size, key = excluded.key, packed = excluded.packed,
    head = excluded.head, tail = excluded.tail, middle = excluded.middle
  WHERE NOT $13::boolean
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM stored), EXISTS (SELECT 1 FROM precondition_ok),
  CASE WHEN $15 THEN (SELECT id FROM newest) END, newer.*
FROM (SELECT 1) AS one LEFT JOIN newer ON true
