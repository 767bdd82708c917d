\set customer random(1, 5000)
\set total random(1, 500)
INSERT INTO purchase (customer, total) VALUES (:customer, :total);
