"""A server's log as a result folder keeps it: its entries, what they tell, and the file that holds them."""
