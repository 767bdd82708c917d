\set customer random(1, 5000)
INSERT INTO booking (customer, made, amount) VALUES (:customer, now(), 100);
