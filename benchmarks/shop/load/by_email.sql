\set c random_zipfian(1, 20000, 1.1)
SELECT email FROM customer WHERE id = :c \gset
SELECT id, region FROM customer WHERE email = :email;
