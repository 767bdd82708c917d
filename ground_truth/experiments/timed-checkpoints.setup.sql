-- About 100,000 pages, which are changed all the time, with texts that take long to compress: they hardly repeat.
CREATE TABLE account (id integer NOT NULL, n integer NOT NULL, filler text NOT NULL) WITH (fillfactor = 80);
INSERT INTO account
SELECT n, 0, one || two || reverse(one) || reverse(two)
FROM generate_series(0, 3999999) AS n, md5(n::text) AS one, md5((-n)::text) AS two;
ALTER TABLE account ADD PRIMARY KEY (id);
VACUUM ANALYZE account;
