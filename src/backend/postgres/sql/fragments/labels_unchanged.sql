-- Whether the labels, document $5, still have the token $6 that they had when they were read.
(SELECT tokens[1] FROM waymark.documents WHERE session = $1 AND name = $5::text) IS NOT DISTINCT FROM $6::uuid
