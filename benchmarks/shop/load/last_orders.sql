\set c random_zipfian(1, 20000, 1.1)
SELECT id, placed, total FROM orders WHERE customer = :c ORDER BY placed DESC LIMIT 10;
