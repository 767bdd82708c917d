\set c random_zipfian(1, 20000, 1.1)
\set p random_zipfian(1, 3000, 1.2)
BEGIN;
SELECT credit FROM customer WHERE id = :c FOR UPDATE;
INSERT INTO orders (customer, placed, state, total) VALUES (:c, clock_timestamp(), 'paid', 12.5) RETURNING id \gset
INSERT INTO line (orders, number, product, pieces, price) VALUES (:id, 1, :p, 2, 6.25);
UPDATE product SET stock = stock - 2 WHERE id = :p;
COMMIT;
