"""A server over folders that tests/support wrote, and a client that says exactly what a test wants to say."""
