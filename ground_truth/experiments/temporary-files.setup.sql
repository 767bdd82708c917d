CREATE TABLE event (place double precision NOT NULL, filler text NOT NULL);
ALTER TABLE event ALTER filler SET STORAGE PLAIN;
INSERT INTO event SELECT random(), repeat('x', 1000) FROM generate_series(1, 50000);
VACUUM ANALYZE event;
