-- The tables of sysbench's oltp scripts, as "sysbench oltp_read_write prepare" makes them: two with 10,000 rows each.
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

CREATE TABLE sbtest2 (LIKE sbtest1 INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE SEQUENCE sbtest2_id_seq OWNED BY sbtest2.id;
ALTER TABLE sbtest2 ALTER id SET DEFAULT nextval('sbtest2_id_seq'), ADD PRIMARY KEY (id);
INSERT INTO sbtest2 (k, c, pad)
SELECT 1 + (random() * 9999)::int, digits(10 + n * 0), digits(5 + n * 0) FROM generate_series(1, 10000) AS n;
CREATE INDEX k_2 ON sbtest2 (k);

VACUUM ANALYZE;
