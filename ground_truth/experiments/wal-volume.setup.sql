-- Texts outside of the row and as they are: compressing them would be CPU time.
CREATE TABLE paper (client integer NOT NULL, body text NOT NULL);
ALTER TABLE paper ALTER body SET STORAGE EXTERNAL;
