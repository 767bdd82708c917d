CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, total int NOT NULL);
INSERT INTO orders SELECT n, 1 + n % 2000, n % 97 FROM generate_series(1, 200000) AS n;
