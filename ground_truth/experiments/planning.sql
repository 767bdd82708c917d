\set id random(1, 10000)
SELECT p1.n + p2.n + p3.n + p4.n + p5.n + p6.n + p7.n + p8.n + p9.n AS n
FROM part_1 AS p1
JOIN part_2 AS p2 ON p2.id = p1.next
JOIN part_3 AS p3 ON p3.id = p2.next
JOIN part_4 AS p4 ON p4.id = p3.next
JOIN part_5 AS p5 ON p5.id = p4.next
JOIN part_6 AS p6 ON p6.id = p5.next
JOIN part_7 AS p7 ON p7.id = p6.next
JOIN part_8 AS p8 ON p8.id = p7.next
JOIN part_9 AS p9 ON p9.id = p8.next
WHERE p1.id = :id;
