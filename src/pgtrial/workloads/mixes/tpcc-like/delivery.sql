-- The oldest order of each district of a warehouse is delivered, where there is one (clause 2.7).
\set w_id random(1, :scale)
\set carrier random(1, 10)
BEGIN;
-- One delivery of a warehouse at a time: two would take the same orders. The number is "TPCC" in ASCII.
SELECT pg_advisory_xact_lock(1414546243, :w_id);
WITH oldest AS (
    SELECT district, no_o_id
    FROM generate_series(1, 10) AS district
    CROSS JOIN LATERAL (
        SELECT no_o_id
        FROM new_order
        WHERE no_w_id = :w_id AND no_d_id = district
        ORDER BY no_o_id
        LIMIT 1
    ) AS waiting
), taken AS (
    DELETE FROM new_order
    USING oldest
    WHERE no_w_id = :w_id AND no_d_id = district AND new_order.no_o_id = oldest.no_o_id
    RETURNING no_d_id, new_order.no_o_id
), sent AS (
    UPDATE orders
    SET o_carrier_id = :carrier
    FROM taken
    WHERE o_w_id = :w_id AND o_d_id = no_d_id AND o_id = no_o_id
    RETURNING o_d_id, o_id, o_c_id
), delivered AS (
    UPDATE order_line
    SET ol_delivery_d = CURRENT_TIMESTAMP
    FROM sent
    WHERE ol_w_id = :w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    RETURNING o_d_id, o_c_id, ol_amount
)
UPDATE customer
SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
FROM (SELECT o_d_id, o_c_id, sum(ol_amount) AS amount FROM delivered GROUP BY o_d_id, o_c_id) AS received
WHERE c_w_id = :w_id AND c_d_id = o_d_id AND c_id = o_c_id;
COMMIT;
