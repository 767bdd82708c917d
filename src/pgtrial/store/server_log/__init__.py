"""A server's log in a result folder: its entries, the facts in them, and their file."""
