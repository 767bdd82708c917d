CREATE TABLE job (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload text NOT NULL
);
INSERT INTO job (payload)
SELECT md5(n::text) FROM generate_series(1, 2000) AS n;
