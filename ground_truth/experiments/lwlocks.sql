\set first random(0, 199900)
SELECT count(filler) FROM item
WHERE is_recent = current_setting('truth.recent_rows')::boolean AND id BETWEEN :first AND :first + 99;
