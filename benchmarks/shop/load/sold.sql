\set p random_zipfian(1, 3000, 1.2)
SELECT sum(pieces * price) FROM line WHERE product = :p;
