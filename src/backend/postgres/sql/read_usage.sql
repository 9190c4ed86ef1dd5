-- The usage of each of the sessions $1, in their order. A slash sorts directly before a zero, so the names between 'results/' and
-- 'results0' are those of the task results.
SELECT
  checkpoints.bytes + documents.bytes + previous.bytes + keys.bytes + damaged.bytes,
  checkpoints.of_session, checkpoints.pinned, checkpoints.of_agents, documents.results,
  newest.id, newest.encoding, newest.made_at, newest.pinned
FROM unnest($1::text[]) WITH ORDINALITY AS wanted (session, position)
CROSS JOIN LATERAL (
  SELECT coalesce(sum(size), 0)::bigint AS bytes, count(*) FILTER (WHERE agent = '') AS of_session,
    count(*) FILTER (WHERE agent = '' AND pinned) AS pinned, count(*) FILTER (WHERE agent > '') AS of_agents
  FROM waymark.checkpoints WHERE session = wanted.session
) checkpoints
CROSS JOIN LATERAL (
  SELECT coalesce(sum(size), 0)::bigint AS bytes,
    count(size) FILTER (WHERE name > 'results/' AND name < 'results0') AS results
  FROM waymark.documents WHERE session = wanted.session
) documents
CROSS JOIN LATERAL (
  SELECT coalesce(sum(p.size), 0)::bigint AS bytes FROM waymark.previous p
  JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
  WHERE p.session = wanted.session AND p.number >= d.oldest AND p.number < d.number
) previous
CROSS JOIN LATERAL (
  SELECT coalesce(sum(size), 0)::bigint AS bytes FROM waymark.keys WHERE session = wanted.session
) keys
CROSS JOIN LATERAL (
  SELECT coalesce(sum(size), 0)::bigint AS bytes FROM waymark.damaged WHERE session = wanted.session
) damaged
LEFT JOIN LATERAL (
  SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = wanted.session AND agent = ''
  ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
) newest ON true
ORDER BY wanted.position
