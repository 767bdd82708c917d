\set k random(1, 40)
SELECT id, name, price FROM product WHERE kind = :k ORDER BY price LIMIT 15;
