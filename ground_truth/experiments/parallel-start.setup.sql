CREATE TABLE shop (id integer NOT NULL, turnover numeric NOT NULL);
INSERT INTO shop SELECT n, n % 1000 FROM generate_series(1, 2000) AS n;
VACUUM ANALYZE;
