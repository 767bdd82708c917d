-- How many items of the last twenty orders of a district are below a threshold (clause 2.8).
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id AS next_order FROM district WHERE d_w_id = :w_id AND d_id = :d_id \gset
SELECT count(DISTINCT s_i_id) AS low_stock
FROM order_line
JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id >= :next_order - 20 AND ol_o_id < :next_order
    AND s_quantity < :threshold;
COMMIT;
