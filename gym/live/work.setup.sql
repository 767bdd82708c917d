CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
INSERT INTO account SELECT n, n % 1000 FROM generate_series(1, 10000) AS n;
VACUUM ANALYZE account;

-- As many look-ups as steps, one after the other: twice the steps are twice the work, of the same kind.
CREATE FUNCTION work(first integer, steps integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    total bigint := 0;
    found integer;
BEGIN
    FOR step IN 1 .. steps LOOP
        SELECT balance INTO found FROM account WHERE id = 1 + (first + step * 7919) % 10000;
        total := total + found;
    END LOOP;
    RETURN total;
END
$$;
