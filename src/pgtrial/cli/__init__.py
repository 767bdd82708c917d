"""Parse, call, print; one file per command."""
