CREATE TABLE sale (id integer PRIMARY KEY, place integer NOT NULL, amount numeric NOT NULL);
INSERT INTO sale SELECT n, n % 100, n % 1000 FROM generate_series(1, 100000) AS n;
VACUUM ANALYZE;
