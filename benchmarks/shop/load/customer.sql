\set c random_zipfian(1, 20000, 1.1)
SELECT id, email, credit FROM customer WHERE id = :c;
