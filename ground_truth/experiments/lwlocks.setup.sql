DO $$
BEGIN
    FOR n IN 0..31 LOOP
        EXECUTE format('CREATE SEQUENCE number_%s', n);
    END LOOP;
END
$$;
