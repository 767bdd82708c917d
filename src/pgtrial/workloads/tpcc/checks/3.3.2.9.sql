-- What a district has taken is in the history.
SELECT format(
    'district %s of warehouse %s has D_YTD %s, and its H_AMOUNT add up to %s', d_id, d_w_id, d_ytd, coalesce(paid, 0)
)
FROM district
LEFT JOIN (
    SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id
) AS payment ON h_w_id = d_w_id AND h_d_id = d_id
WHERE d_ytd <> coalesce(paid, 0)
ORDER BY d_w_id, d_id
LIMIT 1;
