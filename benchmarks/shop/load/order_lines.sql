\set o random(1, 150000)
SELECT l.number, p.name, l.pieces, l.price FROM line AS l JOIN product AS p ON p.id = l.product WHERE l.orders = :o;
