-- Replaces, creates or deletes documents of a session in one step, and keeps $8 earlier versions of each. The session is created
-- if it does not exist.
--
-- A retry looks for its own token among those of the last 64 changes: `applied`. If the token is missing, and all 64 changes came
-- after the first attempt, an attempt may have been made before them: `unclear`. Nothing is changed in either case.
--
-- If another writer creates a document at the same time, this statement does not see the version that it would replace. It then
-- changes nothing, and divides by zero if it has changed the other documents.
--
-- Locks: the session FOR SHARE, then the documents FOR UPDATE by their names.
--
-- $1 session, $2 fencing token, $3 names, $4 sizes, $5 packed, $6 bytes (null to delete), $7 token of this change, $8 versions
-- kept, $9 whether the first document must have the token $10, $11 milliseconds since the first attempt (null if this is the
-- first).
WITH {held_or_created_session}
new_documents AS (
  SELECT new.name, new.size, new.packed, new.bytes
  FROM unnest($3::text[], $4::bigint[], $5::boolean[], $6::bytea[]) AS new (name, size, packed, bytes)
),
old_documents AS (
  SELECT name, number, tokens, changed_at, size, packed, bytes FROM waymark.documents
  WHERE session = $1 AND name = ANY ($3) AND EXISTS (SELECT 1 FROM admitted_session) ORDER BY name FOR UPDATE
),
applied AS (SELECT 1 FROM old_documents WHERE $7::uuid = ANY (tokens)),
unclear AS (
  SELECT 1 FROM old_documents
  WHERE changed_at[64] > clock_timestamp() - $11::bigint * interval '1 millisecond'
    AND NOT EXISTS (SELECT 1 FROM applied)
),
precondition_ok AS (
  SELECT 1 FROM admitted_session
  WHERE NOT EXISTS (SELECT 1 FROM applied UNION ALL SELECT 1 FROM unclear)
    AND (NOT $9::boolean OR (SELECT tokens[1] FROM old_documents LIMIT 1) IS NOT DISTINCT FROM $10::uuid)
),
kept_versions AS (
  INSERT INTO waymark.previous (session, name, number, size, packed, bytes)
  SELECT $1, old.name, old.number, old.size, old.packed, old.bytes FROM old_documents AS old, precondition_ok
  WHERE $8::bigint > 0 AND old.size IS NOT NULL
),
deleted_versions AS (
  DELETE FROM waymark.previous p USING old_documents AS old, precondition_ok
  WHERE p.session = $1 AND p.name = old.name AND p.number < old.number + (old.size IS NOT NULL)::int - $8
),
stored AS (
  INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, changed_at, size, packed, bytes)
  SELECT $1, new.name, 1, 1, ARRAY[$7], ARRAY[clock_timestamp()], new.size, new.packed, new.bytes
  FROM new_documents AS new, precondition_ok ORDER BY new.name
  ON CONFLICT (session, name) DO UPDATE SET
    number = d.number + (d.size IS NOT NULL)::int,
    oldest = greatest(d.oldest, d.number + (d.size IS NOT NULL)::int - $8),
    tokens = (ARRAY[$7] || d.tokens)[1:64],
    changed_at = (ARRAY[clock_timestamp()] || d.changed_at)[1:64],
    size = excluded.size, packed = excluded.packed, bytes = excluded.bytes
  WHERE EXISTS (SELECT 1 FROM old_documents AS old WHERE old.name = d.name)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM applied UNION ALL SELECT 1 FROM stored),
  1 / (CASE WHEN (SELECT count(*) FROM stored) IN (0, cardinality($3)) THEN 1 ELSE 0 END),
  EXISTS (SELECT 1 FROM unclear)
