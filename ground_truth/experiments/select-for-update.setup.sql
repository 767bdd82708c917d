CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO counter SELECT n, 0 FROM generate_series(0, 15) AS n;
CREATE TABLE price (id integer PRIMARY KEY, amount numeric NOT NULL);
INSERT INTO price SELECT n, n % 1000 FROM generate_series(1, 20000) AS n;
VACUUM ANALYZE;
