BEGIN;
SELECT n FROM counter WHERE id = :client_id % :rows FOR UPDATE;
SELECT sum(amount) FROM price;
UPDATE counter SET n = n + 1 WHERE id = :client_id % :rows;
END;
