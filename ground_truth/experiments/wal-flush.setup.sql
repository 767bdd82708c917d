CREATE TABLE note (client integer NOT NULL, text text NOT NULL);
