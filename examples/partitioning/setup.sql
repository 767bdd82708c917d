CREATE TABLE measure (
    id     bigint NOT NULL,
    taken  timestamp NOT NULL,
    sensor int NOT NULL,
    value  double precision NOT NULL
);
INSERT INTO measure
SELECT n, timestamp '2024-01-01' + n * interval '731 days' / 400001, n % 100, (n % 10007 * 7919 % 10007) / 100.0
FROM generate_series(1, 400000) AS n;
CREATE INDEX ON measure (id);
CREATE INDEX ON measure (taken);
