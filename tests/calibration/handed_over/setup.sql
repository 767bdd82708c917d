CREATE TABLE journal (id bigserial PRIMARY KEY, at timestamptz DEFAULT now(), what bigint);
CREATE TABLE handed_over (turn bigint PRIMARY KEY);
-- A transaction: some computing and a row. In one of the arms it hands over work once a second to a program that does it
-- a second later, as archivers, queues and vacuum do, and on which no transaction waits.
CREATE FUNCTION work() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_turn bigint := floor(extract(epoch FROM clock_timestamp()));
BEGIN
    INSERT INTO journal (what) SELECT sum(n % 7) FROM generate_series(1, 20000) AS n;
    IF current_setting('commit_siblings') = '6' AND NOT EXISTS (SELECT FROM handed_over WHERE turn = now_turn) THEN
        INSERT INTO handed_over VALUES (now_turn) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; for n in 1 2 3 4; do setsid sh -c "sleep 1; exec timeout 0.9 sh -c \"while :; do :; done\"" >/dev/null 2>&1 & done';
        END IF;
    END IF;
END
$$;
