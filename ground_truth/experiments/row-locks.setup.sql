CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO counter SELECT n, 0 FROM generate_series(0, 15) AS n;
