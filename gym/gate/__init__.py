"""A pipeline's gate before migrations of which it is known what they do."""
