-- The token of the call that created session $1 from a source, and whether the session holds anything.
SELECT founder,
  EXISTS (SELECT 1 FROM waymark.checkpoints WHERE session = $1)
  OR EXISTS (SELECT 1 FROM waymark.documents d WHERE d.session = $1 AND (d.size IS NOT NULL OR EXISTS (
    SELECT 1 FROM waymark.previous p
    WHERE p.session = $1 AND p.name = d.name AND p.number >= d.oldest AND p.number < d.number
  )))
  OR EXISTS (SELECT 1 FROM waymark.keys WHERE session = $1)
  OR EXISTS (SELECT 1 FROM waymark.damaged WHERE session = $1)
FROM waymark.sessions WHERE id = $1
