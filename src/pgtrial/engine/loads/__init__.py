"""The kinds of load: on a server, or on files."""
