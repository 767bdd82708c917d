CREATE TABLE doc (id integer NOT NULL, words integer[] NOT NULL);
INSERT INTO doc SELECT n, ARRAY(SELECT (n * 31 + i * 7919) % 100000 FROM generate_series(1, 40) AS i)
FROM generate_series(1, 20000) AS n;
CREATE INDEX doc_words ON doc USING gin (words) WITH (fastupdate = on, gin_pending_list_limit = 1048576);
VACUUM ANALYZE doc;
