-- Whether retention may delete the checkpoint: it is not pinned, and not the newest.
NOT pinned AND EXISTS (
  SELECT 1 FROM waymark.checkpoints newer WHERE newer.session = $1 AND newer.agent = $3
    AND (newer.made_at, newer.id) > (checkpoints.made_at, checkpoints.id)
)
