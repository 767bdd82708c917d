-- The last order of a customer (clause 2.6); 60 in a hundred are looked for by their last name.
\set c_w_id random(1, :scale)
\set c_d_id random(1, 10)
\set c_id (((random(0, 1023) | random(1, 3000)) + 259) % 3000) + 1
\set name ((random(0, 255) | random(0, 999)) + 205) % 1000
\set by_name random(1, 100)
BEGIN;
\if :by_name <= 60
-- Of those with the name the one in the middle, by first names.
SELECT c_id
FROM (
    SELECT c_id, row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS customers
    FROM customer
    WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = tpcc_last_name(:name)
) AS namesake
WHERE place = (customers + 1) / 2 \gset
\endif
SELECT c_balance, c_first, c_middle, c_last
FROM customer
WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
SELECT o_id, o_entry_d, o_carrier_id
FROM orders
WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id
ORDER BY o_id DESC
LIMIT 1 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
FROM order_line
WHERE ol_w_id = :c_w_id AND ol_d_id = :c_d_id AND ol_o_id = :o_id;
COMMIT;
