-- What a warehouse has taken is what its districts have taken.
SELECT format('warehouse %s has W_YTD %s, and the D_YTD of its districts add up to %s', w_id, w_ytd, sum(d_ytd))
FROM warehouse
LEFT JOIN district ON d_w_id = w_id
GROUP BY w_id, w_ytd
HAVING w_ytd IS DISTINCT FROM sum(d_ytd)
ORDER BY w_id
LIMIT 1;
