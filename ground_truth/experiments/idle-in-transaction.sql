SELECT current_setting('truth.pause') AS pause \gset
BEGIN;
UPDATE counter SET n = n + 1 WHERE id = :client_id;
\sleep :pause ms
END;
