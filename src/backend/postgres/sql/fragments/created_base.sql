-- Creates base {base_id} with the bytes {added}. A base of that id that begins with the same bytes and is longer is kept.
-- `base_ok` has no row if one holds other bytes: nothing is changed then. All pieces are locked FOR UPDATE.
base_pieces AS (
  SELECT start, bytes FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = {base_id}::text AND EXISTS (SELECT 1 FROM {writable})
  ORDER BY start FOR UPDATE
),
stored_base AS (
  SELECT coalesce(string_agg(bytes, ''::bytea ORDER BY start), ''::bytea) AS bytes FROM base_pieces
),
base_ok AS (
  SELECT octet_length(stored_base.bytes) >= octet_length({added}::bytea) AS is_longer FROM {writable}, stored_base
  WHERE substring(stored_base.bytes FROM 1 FOR octet_length({added}))
    = substring({added} FROM 1 FOR octet_length(stored_base.bytes))
),
deleted_pieces AS (
  DELETE FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = {base_id} AND start > 0
    AND EXISTS (SELECT 1 FROM base_ok WHERE NOT is_longer)
),
added_piece AS (
  INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
  SELECT $1, $3, {base_id}, 0, octet_length({added}), {added} FROM base_ok WHERE NOT is_longer
  ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
),
