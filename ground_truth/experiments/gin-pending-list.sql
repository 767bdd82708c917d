\set word random(0, 99999)
SELECT count(*) FROM doc WHERE words @> ARRAY[:word::integer];
