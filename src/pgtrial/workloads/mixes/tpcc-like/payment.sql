-- A customer pays (clause 2.5): 15 in a hundred are of another warehouse, 60 are looked for by their last name.
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set is_remote random(1, 100) <= 15
\set c_w_id case when :is_remote and :scale > 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set c_d_id case when :is_remote then random(1, 10) else :d_id end
\set c_id (((random(0, 1023) | random(1, 3000)) + 259) % 3000) + 1
\set name ((random(0, 255) | random(0, 999)) + 205) % 1000
\set by_name random(1, 100)
\set cents random(100, 500000)
BEGIN;
UPDATE warehouse
SET w_ytd = w_ytd + :cents * 0.01
WHERE w_id = :w_id
RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;
UPDATE district
SET d_ytd = d_ytd + :cents * 0.01
WHERE d_w_id = :w_id AND d_id = :d_id
RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;
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
UPDATE customer
SET c_balance = c_balance - :cents * 0.01,
    c_ytd_payment = c_ytd_payment + :cents * 0.01,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE
        WHEN c_credit = 'BC'
        THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, :d_id::integer, :w_id::integer, :cents * 0.01, c_data), 500)
        ELSE c_data
    END
WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id
RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
          c_credit_lim, c_discount, c_balance, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END AS c_data;
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
SELECT :c_id, :c_d_id, :c_w_id, d_id, w_id, CURRENT_TIMESTAMP, :cents * 0.01, concat(w_name, '    ', d_name)
FROM warehouse
JOIN district ON d_w_id = w_id
WHERE w_id = :w_id AND d_id = :d_id;
COMMIT;
