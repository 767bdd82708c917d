\set customer random(1, 5000)
SELECT count(*), sum(amount) FROM booking WHERE customer = :customer;
