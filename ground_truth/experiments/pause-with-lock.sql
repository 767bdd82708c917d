BEGIN;
UPDATE counter SET n = n + 1 WHERE id = 0;
\sleep :pause ms
END;
