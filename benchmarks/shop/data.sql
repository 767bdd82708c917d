-- A shop: keys are skewed, most rows belong to few customers and products, and events came in the order of time.
CREATE EXTENSION pg_stat_statements;
CREATE TABLE customer (
    id int PRIMARY KEY, email text NOT NULL UNIQUE, region int NOT NULL, credit numeric NOT NULL, joined date NOT NULL);
CREATE TABLE product (id int PRIMARY KEY, kind int NOT NULL, price numeric NOT NULL, stock int NOT NULL, name text NOT NULL);
CREATE TABLE orders (
    id bigserial PRIMARY KEY, customer int NOT NULL REFERENCES customer, placed timestamptz NOT NULL,
    state text NOT NULL, total numeric NOT NULL);
CREATE TABLE line (
    orders bigint NOT NULL REFERENCES orders, number int NOT NULL, product int NOT NULL REFERENCES product,
    pieces int NOT NULL, price numeric NOT NULL, PRIMARY KEY (orders, number));
CREATE TABLE event (id bigserial PRIMARY KEY, customer int NOT NULL, at timestamptz NOT NULL, kind text NOT NULL, body text);

SELECT setseed(0.20261126);
INSERT INTO customer
SELECT n, 'c' || n || '@shop.example', 1 + floor(50 * random() ^ 2), round((random() * 1000)::numeric, 2),
       date '2020-01-01' + n / 12
FROM generate_series(1, 20000) AS n;
INSERT INTO product
SELECT n, 1 + n % 40, round((1 + random() * 200)::numeric, 2), 1000000, 'product ' || n FROM generate_series(1, 3000) AS n;
INSERT INTO orders (customer, placed, state, total)
SELECT 1 + floor(20000 * random() ^ 3), timestamptz '2026-01-01' + n * interval '2 min',
       (ARRAY['paid', 'sent', 'done', 'done', 'done', 'done'])[1 + floor(random() * 6)], round((random() * 500)::numeric, 2)
FROM generate_series(1, 150000) AS n;
INSERT INTO line
SELECT o.id, g, 1 + floor(3000 * random() ^ 4), 1 + floor(random() * 5), round((random() * 200)::numeric, 2)
FROM orders AS o, generate_series(1, 1 + (o.id % 5)) AS g;
INSERT INTO event (customer, at, kind, body)
SELECT 1 + floor(20000 * random() ^ 3), timestamptz '2026-01-01' + n * interval '45 s',
       (ARRAY['view', 'view', 'view', 'cart', 'pay'])[1 + floor(random() * 5)], repeat('x', 60)
FROM generate_series(1, 400000) AS n;
CREATE INDEX ON orders (customer);
CREATE INDEX ON orders (placed);
CREATE INDEX ON line (product);
CREATE INDEX ON event (customer);
CREATE INDEX ON event (at);
CREATE INDEX ON customer (region);
CREATE INDEX ON product (kind);
