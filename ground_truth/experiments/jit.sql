\set first random(1, 99000)
SELECT place, sum(amount * 1.1 + 2) AS gross FROM sale WHERE id BETWEEN :first AND :first + 200 GROUP BY place;
