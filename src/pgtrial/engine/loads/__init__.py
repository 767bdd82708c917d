"""The kinds of load as the engine drives them: on a server, or on files."""
