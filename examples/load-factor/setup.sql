CREATE TABLE note (
    customer int NOT NULL,
    number   int NOT NULL,
    text     text NOT NULL,
    PRIMARY KEY (customer, number)
);
INSERT INTO note
SELECT customer, number, repeat(md5(number::text), 2)
FROM generate_series(1, 100) AS customer, generate_series(1, 1000) AS number;
VACUUM ANALYZE note;
