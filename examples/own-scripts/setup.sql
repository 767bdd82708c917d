-- Run once, before the snapshot is taken.
CREATE TABLE job (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state    text NOT NULL DEFAULT 'waiting',
    payload  text NOT NULL,
    finished timestamptz
);
CREATE INDEX job_waiting ON job (id) WHERE state = 'waiting';

INSERT INTO job (payload)
SELECT md5(n::text)
FROM generate_series(1, 300000) AS n;
