-- Appends {added} to base {base_id} behind its first {known} bytes, and drops pieces behind them that an earlier attempt left.
-- `base_ok` has a row if the base has at least {known} bytes. The first piece is locked FOR KEY SHARE, so that the base is not
-- deleted until the transaction ends.
locked_base AS (
  SELECT start FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = {base_id}::text AND start = 0
    AND EXISTS (SELECT 1 FROM {writable}) FOR KEY SHARE
),
base_ok AS (
  SELECT start FROM locked_base WHERE {known}::bigint <= (
    SELECT max(start + size) FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = {base_id}
  )
),
deleted_pieces AS (
  DELETE FROM waymark.keys
  WHERE session = $1 AND agent = $3 AND id = {base_id} AND start > {known}
    AND octet_length({added}::bytea) > 0 AND EXISTS (SELECT 1 FROM base_ok)
),
added_piece AS (
  INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
  SELECT $1, $3, {base_id}, {known}, octet_length({added}), {added} FROM base_ok
  WHERE octet_length({added}) > 0
  ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
),
