"""Numbers in, numbers out: numpy and scipy only, no knowledge of PostgreSQL or files."""
