-- A table of the session's own, without WAL and outside of shared_buffers, which is empty again at the end of each
-- statement: what is written to it goes to the page cache at once.
CREATE TEMPORARY TABLE IF NOT EXISTS bulk (filler text) ON COMMIT DELETE ROWS;
INSERT INTO bulk SELECT repeat('x', 1900) FROM generate_series(1, 40000);
