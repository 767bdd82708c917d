"""Access to a server: its programs, throw-away clusters, connections, settings."""
