-- Creates session $1 if it does not exist. The fencing token is $2.
WITH {held_or_created_session}
done AS (SELECT 1)
SELECT EXISTS (SELECT 1 FROM admitted_session), EXISTS (SELECT 1 FROM done)
