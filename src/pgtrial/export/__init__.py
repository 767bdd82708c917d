"""Result folders as bundles for others, with private data redacted."""
