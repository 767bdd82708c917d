DO $$
BEGIN
    FOR n IN 1..9 LOOP
        EXECUTE format('CREATE TABLE part_%s (id integer PRIMARY KEY, next integer NOT NULL, n integer NOT NULL)', n);
        EXECUTE format('INSERT INTO part_%s SELECT i, i %% 10000 + 1, i FROM generate_series(1, 10000) AS i', n);
    END LOOP;
END
$$;
VACUUM ANALYZE;
