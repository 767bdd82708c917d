-- A row comes and about one goes, at random places of table and index; the table keeps its size.
\set new random(1, 300000)
\set old random(1, 300000)
BEGIN;
INSERT INTO entry (reference, payload) VALUES (:new, repeat('x', 100));
DELETE FROM entry WHERE reference = :old;
END;
