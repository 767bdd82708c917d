-- The orders that wait have numbers without a gap.
SELECT format(
    'district %s of warehouse %s has %s rows in new_order, with NO_O_ID from %s to %s',
    no_d_id, no_w_id, count(*), min(no_o_id), max(no_o_id)
)
FROM new_order
GROUP BY no_w_id, no_d_id
HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)
ORDER BY no_w_id, no_d_id
LIMIT 1;
