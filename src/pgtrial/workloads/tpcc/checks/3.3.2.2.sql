-- The next number of an order follows the last one, which is also the last of those that wait, if any do.
SELECT format(
    'district %s of warehouse %s has D_NEXT_O_ID %s, the last O_ID %s and the last NO_O_ID %s',
    d_id, d_w_id, d_next_o_id, coalesce(last_order::text, 'none'), coalesce(last_waiting::text, 'none')
)
FROM district
LEFT JOIN (
    SELECT o_w_id, o_d_id, max(o_id) AS last_order FROM orders GROUP BY o_w_id, o_d_id
) AS ordered ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN (
    SELECT no_w_id, no_d_id, max(no_o_id) AS last_waiting FROM new_order GROUP BY no_w_id, no_d_id
) AS waiting ON no_w_id = d_w_id AND no_d_id = d_id
WHERE d_next_o_id - 1 IS DISTINCT FROM last_order OR last_waiting <> d_next_o_id - 1
ORDER BY d_w_id, d_id
LIMIT 1;
