-- Every session changes the same ten rows, so all but one of them wait. They are locked in the same order by all, so
-- that there is no deadlock.
UPDATE hot
SET n = n + 1
WHERE id IN (SELECT id FROM hot ORDER BY id FOR UPDATE);
