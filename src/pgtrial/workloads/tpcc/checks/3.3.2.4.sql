-- There are as many lines as the orders say.
SELECT format(
    'district %s of warehouse %s has %s order lines, and the O_OL_CNT of its orders add up to %s',
    d_id, d_w_id, coalesce(lines, 0), coalesce(counted, 0)
)
FROM district
LEFT JOIN (
    SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS counted FROM orders GROUP BY o_w_id, o_d_id
) AS ordered ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN (
    SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id
) AS line ON ol_w_id = d_w_id AND ol_d_id = d_id
WHERE coalesce(lines, 0) <> coalesce(counted, 0)
ORDER BY d_w_id, d_id
LIMIT 1;
