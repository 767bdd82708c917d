-- What a warehouse has taken is in the history.
SELECT format('warehouse %s has W_YTD %s, and its H_AMOUNT add up to %s', w_id, w_ytd, coalesce(paid, 0))
FROM warehouse
LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS payment ON h_w_id = w_id
WHERE w_ytd <> coalesce(paid, 0)
ORDER BY w_id
LIMIT 1;
