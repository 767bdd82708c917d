\set id random(0, 15)
SELECT n FROM counter WHERE id = :id;
