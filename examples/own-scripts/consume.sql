UPDATE job
SET state = 'done', finished = now()
WHERE id = (
    SELECT id
    FROM job
    WHERE state = 'waiting'
    ORDER BY id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
);
