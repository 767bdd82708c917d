\set a random_zipfian(1, 3000, 1.1)
\set b random(1, 3000)
\set c random(1, 3000)
SELECT id, price, stock FROM product WHERE id IN (:a, :b, :c);
