\set p random(1, 3000)
UPDATE product SET price = price * 1.0001 WHERE id = :p;
