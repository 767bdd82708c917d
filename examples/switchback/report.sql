-- As the application sends it: a report over a day, with a sort that does not fit into 4MB.
\set day random(0, 27)
SELECT customer, count(*), sum(amount)
FROM orders
WHERE ordered >= DATE '2026-02-01' + :day AND ordered < DATE '2026-02-01' + :day + 1
GROUP BY customer
ORDER BY sum(amount) DESC, customer
LIMIT 10;
