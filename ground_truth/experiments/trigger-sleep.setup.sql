CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO counter SELECT n, 0 FROM generate_series(0, 15) AS n;
CREATE FUNCTION think() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(current_setting('truth.seconds')::double precision);
    RETURN new;
END
$$;
CREATE TRIGGER think BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION think();
VACUUM ANALYZE;
