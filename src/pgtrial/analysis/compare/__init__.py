"""Compare several experiments: which effects may be combined, and which may not."""
