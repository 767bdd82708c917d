\set table random(0, 3)
\set id random(1, 400000)
UPDATE hot_:table SET a = a + 1, b = b + 1, c = c + 1 WHERE id = :id;
