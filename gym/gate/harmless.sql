ALTER TABLE purchase ADD COLUMN note text;
