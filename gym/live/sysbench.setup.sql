-- The table of sysbench's oltp scripts, and the work: each transaction of oltp_read_write has one DELETE.
CREATE FUNCTION digits(groups int) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(lpad((random() * 99999999999)::bigint::text, 11, '0'), '-') FROM generate_series(1, groups)
$$;
CREATE TABLE sbtest1 (
    id  serial PRIMARY KEY,
    k   integer DEFAULT 0 NOT NULL,
    c   char(120) DEFAULT '' NOT NULL,
    pad char(60) DEFAULT '' NOT NULL
);
INSERT INTO sbtest1 (k, c, pad)
SELECT 1 + (random() * 9999)::int, digits(10 + n * 0), digits(5 + n * 0) FROM generate_series(1, 10000) AS n;
CREATE INDEX k_1 ON sbtest1 (k);
VACUUM ANALYZE sbtest1;

CREATE FUNCTION burden() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM work(1 + (random() * 9999)::int, current_setting('geqo_generations')::integer);
    RETURN NULL;
END
$$;
CREATE TRIGGER burden BEFORE DELETE ON sbtest1 FOR EACH STATEMENT EXECUTE FUNCTION burden();
