-- Rows from before the prepared transaction, each of a transaction that nobody has to look up.
CREATE TABLE item (id integer, is_recent boolean, filler text);
INSERT INTO item SELECT n * 7919 % 200000, false, repeat('x', 20) FROM generate_series(0, 199999) AS n;

-- A transaction that stays, with more subtransactions than a snapshot can hold (64): snapshots are incomplete now, and
-- a session has to look up in pg_subtrans to which transaction a younger row belongs.
CREATE TABLE held (n integer);
BEGIN;
DO $$
BEGIN
    FOR n IN 1..100 LOOP
        BEGIN
            INSERT INTO held VALUES (n);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;
PREPARE TRANSACTION 'stays';

-- Younger rows, each by a subtransaction of its own: their numbers are on about 100 pages of pg_subtrans, for which
-- there are 32 buffers. Neighbours in the index are on pages far from each other.
DO $$
BEGIN
    FOR n IN 0..199999 LOOP
        BEGIN
            INSERT INTO item VALUES (n::bigint * 7919 % 200000, true, repeat('x', 20));
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;
CREATE INDEX ON item (is_recent, id);
VACUUM ANALYZE item;
