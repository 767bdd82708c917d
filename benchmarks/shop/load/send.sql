\set o random(1, 150000)
BEGIN;
SELECT state, customer FROM orders WHERE id = :o FOR UPDATE;
UPDATE orders SET state = 'sent' WHERE id = :o;
INSERT INTO event (customer, at, kind, body) SELECT customer, clock_timestamp(), 'sent', 'x' FROM orders WHERE id = :o;
COMMIT;
