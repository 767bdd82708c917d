DO $$
BEGIN
    FOR n IN 0..3 LOOP
        EXECUTE format('CREATE TABLE hot_%s (id integer PRIMARY KEY, a integer, b integer, c integer)', n);
        EXECUTE format('INSERT INTO hot_%s SELECT i, i, i, i FROM generate_series(1, 400000) AS i', n);
        EXECUTE format('CREATE INDEX ON hot_%s (a)', n);
        EXECUTE format('CREATE INDEX ON hot_%s (b)', n);
        EXECUTE format('CREATE INDEX ON hot_%s (c)', n);
    END LOOP;
END
$$;
VACUUM ANALYZE;
