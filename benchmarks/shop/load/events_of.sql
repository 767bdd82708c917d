\set c random_zipfian(1, 20000, 1.05)
SELECT at, kind FROM event WHERE customer = :c AND kind = 'pay' ORDER BY at DESC LIMIT 20;
