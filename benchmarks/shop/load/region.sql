\set r random(1, 50)
SELECT count(*) FROM customer WHERE region = :r;
