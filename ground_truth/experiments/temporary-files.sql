SELECT count(filler) FROM (SELECT filler FROM event ORDER BY place OFFSET 0) AS sorted;
