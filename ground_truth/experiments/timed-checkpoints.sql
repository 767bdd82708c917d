UPDATE account SET n = n + 1
WHERE id = ANY (ARRAY(SELECT (random() * 3999999)::integer FROM generate_series(1, 50)));
