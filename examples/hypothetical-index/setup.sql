CREATE TABLE booking (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL,
    made     timestamptz NOT NULL,
    amount   numeric NOT NULL
);
INSERT INTO booking (customer, made, amount)
SELECT 1 + n % 5000, timestamptz '2025-01-01' + n * interval '1 minute', n % 500 FROM generate_series(1, 300000) AS n;
