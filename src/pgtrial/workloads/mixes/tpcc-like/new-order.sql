-- A customer orders five to fifteen items (clause 2.4). One line in a hundred is from another warehouse; one order in a
-- hundred has an item that does not exist, and is rolled back.
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set c_id (((random(0, 1023) | random(1, 3000)) + 259) % 3000) + 1
\set lines random(5, 15)
-- The line whose item does not exist is the last one; 0: none.
\set unknown case when random(1, 100) = 1 then :lines else 0 end
\set item1 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item2 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item3 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item4 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item5 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item6 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item7 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item8 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item9 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item10 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item11 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item12 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item13 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item14 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set item15 (((random(0, 8191) | random(1, 100000)) + 7911) % 100000) + 1
\set from1 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from2 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from3 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from4 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from5 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from6 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from7 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from8 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from9 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from10 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from11 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from12 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from13 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from14 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set from15 case when :scale > 1 and random(1, 100) = 1 then (:w_id + random(0, :scale - 2)) % :scale + 1 else :w_id end
\set quantity1 random(1, 10)
\set quantity2 random(1, 10)
\set quantity3 random(1, 10)
\set quantity4 random(1, 10)
\set quantity5 random(1, 10)
\set quantity6 random(1, 10)
\set quantity7 random(1, 10)
\set quantity8 random(1, 10)
\set quantity9 random(1, 10)
\set quantity10 random(1, 10)
\set quantity11 random(1, 10)
\set quantity12 random(1, 10)
\set quantity13 random(1, 10)
\set quantity14 random(1, 10)
\set quantity15 random(1, 10)
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax
FROM warehouse
JOIN customer ON c_w_id = w_id
WHERE w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id;
UPDATE district
SET d_next_o_id = d_next_o_id + 1
WHERE d_w_id = :w_id AND d_id = :d_id
RETURNING d_next_o_id - 1 AS o_id, d_tax \gset
WITH line AS (
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                            ol_dist_info)
    SELECT :o_id, :d_id, :w_id, number, i_id, s_w_id, quantity, quantity * i_price,
           CASE :d_id::integer
               WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
               WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
               WHEN 9 THEN s_dist_09 ELSE s_dist_10
           END
    FROM unnest(
         ARRAY[:item1, :item2, :item3, :item4, :item5, :item6, :item7, :item8,
               :item9, :item10, :item11, :item12, :item13, :item14, :item15]::integer[],
         ARRAY[:from1, :from2, :from3, :from4, :from5, :from6, :from7, :from8,
               :from9, :from10, :from11, :from12, :from13, :from14, :from15]::integer[],
         ARRAY[:quantity1, :quantity2, :quantity3, :quantity4, :quantity5, :quantity6, :quantity7, :quantity8,
               :quantity9, :quantity10, :quantity11, :quantity12, :quantity13, :quantity14, :quantity15]::integer[]
    ) WITH ORDINALITY AS wanted (item, supplier, quantity, number)
    JOIN item ON i_id = wanted.item
    JOIN stock ON s_w_id = supplier AND s_i_id = wanted.item
    WHERE number <= :lines AND number <> :unknown
    RETURNING ol_supply_w_id
), placed AS (
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    SELECT :o_id, :d_id, :w_id, :c_id, CURRENT_TIMESTAMP, :lines,
           CASE WHEN bool_and(ol_supply_w_id = :w_id) THEN 1 ELSE 0 END
    FROM line
)
SELECT count(*) AS found FROM line \gset
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (:o_id, :d_id, :w_id);
-- In the order of their keys, so that no two orders wait for each other.
SELECT ol_number, i_name, i_price, s_quantity, ol_amount,
       CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END AS brand
FROM order_line
JOIN item ON i_id = ol_i_id
JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id = :o_id
ORDER BY s_w_id, s_i_id
FOR NO KEY UPDATE OF stock;
UPDATE stock
SET s_quantity = s_quantity - quantity + CASE WHEN s_quantity - quantity >= 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + quantity,
    s_order_cnt = s_order_cnt + lines,
    s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE lines END
FROM (
    SELECT ol_supply_w_id, ol_i_id, sum(ol_quantity)::integer AS quantity, count(*)::integer AS lines
    FROM order_line
    WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id = :o_id
    GROUP BY ol_supply_w_id, ol_i_id
) AS ordered
WHERE s_w_id = ol_supply_w_id AND s_i_id = ol_i_id;
\if :found = :lines
COMMIT;
\else
ROLLBACK;
\endif
