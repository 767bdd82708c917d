CREATE TABLE item (id integer PRIMARY KEY, code text NOT NULL, price numeric NOT NULL);
INSERT INTO item SELECT n, 'code ' || n, n % 1000 FROM generate_series(1, 20000) AS n;
VACUUM ANALYZE item;
