CREATE TABLE customer (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL
);
CREATE TABLE purchase (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer bigint NOT NULL REFERENCES customer (id),
    made     timestamptz NOT NULL DEFAULT now(),
    total    numeric NOT NULL
);
INSERT INTO customer (name)
SELECT md5(n::text) FROM generate_series(1, 5000) AS n;
INSERT INTO purchase (customer, total)
SELECT 1 + n % 5000, n % 500 FROM generate_series(1, 100000) AS n;
CREATE INDEX purchase_of_customer ON purchase (customer, made);
