\set customer random(1, 5000)
SELECT made, total FROM purchase WHERE customer = :customer ORDER BY made DESC LIMIT 20;
