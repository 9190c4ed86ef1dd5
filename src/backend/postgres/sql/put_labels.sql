-- Replaces the labels of a session together with a new checkpoint, if the checkpoint was stored in this transaction. The caller
-- holds the lock of the session. Divides by zero if the labels have changed since they were read.
--
-- $1 session, $2 checkpoint, $3 name of the document, $4 token of the labels that were read, $5 token of this change, $6 size, $7
-- packed, $8 bytes, $9 size, $10 head and $11 tail of the checkpoint.
WITH stored_checkpoint AS (
  SELECT 1 / (CASE WHEN (SELECT tokens[1] FROM waymark.documents WHERE session = $1 AND name = $3::text)
    IS NOT DISTINCT FROM $4::uuid THEN 1 ELSE 0 END) AS one
  FROM waymark.checkpoints WHERE session = $1 AND agent = '' AND id = $2::text
    AND size = $9::bigint AND head = $10::bytea AND tail = $11::bytea
)
INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, changed_at, size, packed, bytes)
SELECT $1, $3, 1, 1, ARRAY[$5::uuid], ARRAY[clock_timestamp()], $6::bigint, $7::boolean, $8::bytea
FROM stored_checkpoint WHERE one = 1
ON CONFLICT (session, name) DO UPDATE SET
  number = d.number + (d.size IS NOT NULL)::int, oldest = d.number + (d.size IS NOT NULL)::int,
  tokens = ($5 || d.tokens)[1:64], changed_at = (clock_timestamp() || d.changed_at)[1:64],
  size = excluded.size, packed = excluded.packed, bytes = excluded.bytes
