\set c random_zipfian(1, 20000, 1.05)
SELECT id, placed, state, total FROM orders WHERE customer = :c;
