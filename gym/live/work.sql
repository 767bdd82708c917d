\set first random(1, 10000)
SELECT work(:first, current_setting('geqo_generations')::integer);
