CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL);
INSERT INTO counter SELECT n, 0 FROM generate_series(0, 15) AS n;
CREATE TABLE held (n integer);
BEGIN;
INSERT INTO held VALUES (1);
PREPARE TRANSACTION 'forgotten';
DO $$
BEGIN
    FOR round IN 1..5000 LOOP
        UPDATE counter SET n = counter.n + 1;
    END LOOP;
END
$$;
ANALYZE;
