\set n random(1, 20000)
SELECT id, price FROM item WHERE code = 'code ' || :n;
