"""The experiment file: what it may say, read from TOML, with every error at once."""
