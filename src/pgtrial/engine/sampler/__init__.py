"""What is read all the time beside the load: a process of its own, and what starts and stops it."""
