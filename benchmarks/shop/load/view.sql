\set c random_zipfian(1, 20000, 1.1)
INSERT INTO event (customer, at, kind, body) VALUES (:c, clock_timestamp(), 'view', 'x');
